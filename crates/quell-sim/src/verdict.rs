//! What a run shows.
