#!/bin/sh
# rustdoc with its JSON allowed. Set for rustdoc alone: build scripts look at the same variable, and setting it for cargo
# would build every dependency again, now and at the next step.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
