//! Record: which failures a breaker counts.
//!
//! **Why.** What is worth a retry and what speaks against an upstream are two questions. A 404 from a cache that
//! lost its data may have to open the breaker, a 500 that one tenant's bad input causes must not. Usually the outcome
//! itself knows ([`Failure::bad`](crate::Failure::bad)); these lists overrule it, status codes before kinds of fault.
//!
//! ```
//! use quell_core::{Failure, Fault, Outcome, breaker::record::{List, Record}};
//!
//! let record = Record { record: List::of(&[404], &[])?, ignore: List::of(&[500], &[Fault::Connect])? };
//! let failed = |code| Outcome::Failed(Failure::of(Fault::Server).with_code(code));
//! assert_eq!(record.verdict(&failed(404)), Some(false)); // bad
//! assert_eq!(record.verdict(&failed(500)), None);        // says nothing
//! assert_eq!(record.verdict(&failed(503)), Some(false)); // as the outcome says
//! # Ok::<_, quell_core::breaker::record::Invalid>(())
//! ```

use crate::{Fault, Outcome};

/// Most codes in one list.
const MOST: usize = 16;

/// Failures that a breaker counts or ignores, whatever the outcome itself says. The default overrules nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Record {
    /// These are bad.
    pub record: List,
    /// These say nothing about the upstream.
    pub ignore: List,
}

/// A few status codes and kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct List {
    /// Unused places hold 0, which is no status code.
    codes: [u16; MOST],
    /// One bit per kind.
    faults: u8,
}

/// Why a list is none. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// More than fit.
    #[error("breaker.record or breaker.ignore has {0} codes: write at most 16, or kinds of fault")]
    TooMany(usize),
    /// Not a status code.
    #[error("breaker.record or breaker.ignore has the code 0: write a status code such as 503")]
    NoCode,
    /// Both bad and ignored.
    #[error("breaker.record and breaker.ignore both have the code {0}: write it in one of them")]
    Code(u16),
    /// Both bad and ignored.
    #[error("breaker.record and breaker.ignore both have {0:?} faults: write them in one of them")]
    Fault(Fault),
}

const FAULTS: [Fault; 5] =
    [Fault::Connect, Fault::Timeout, Fault::Overload, Fault::Server, Fault::Fatal];

const fn bit(fault: Fault) -> u8 {
    match fault {
        Fault::Connect => 1,
        Fault::Timeout => 2,
        Fault::Overload => 4,
        Fault::Server => 8,
        Fault::Fatal => 16,
    }
}

impl List {
    /// A list of these.
    pub fn of(codes: &[u16], faults: &[Fault]) -> Result<Self, Invalid> {
        if codes.len() > MOST {
            return Err(Invalid::TooMany(codes.len()));
        }
        if codes.contains(&0) {
            return Err(Invalid::NoCode);
        }
        let mut list = Self::default();
        list.codes[..codes.len()].copy_from_slice(codes);
        list.faults = faults.iter().fold(0, |bits, &fault| bits | bit(fault));
        Ok(list)
    }

    fn has_code(&self, code: u16) -> bool {
        code != 0 && self.codes.contains(&code)
    }

    fn has_fault(&self, fault: Fault) -> bool {
        self.faults & bit(fault) != 0
    }
}

impl Record {
    /// What an outcome says about the upstream: `Some(true)` good, `Some(false)` bad, `None` nothing.
    pub fn verdict(&self, outcome: &Outcome) -> Option<bool> {
        let failure = match outcome {
            Outcome::Success => return Some(true),
            Outcome::Defer { .. } | Outcome::Abandoned => return None,
            Outcome::Failed(failure) => failure,
        };
        if let Some(code) = failure.code {
            if self.ignore.has_code(code) {
                return None;
            }
            if self.record.has_code(code) {
                return Some(false);
            }
        }
        let bad = !self.ignore.has_fault(failure.fault)
            && (self.record.has_fault(failure.fault) || failure.bad);
        bad.then_some(false)
    }

    pub(super) fn check(&self) -> Result<(), Invalid> {
        if let Some(&code) = self.record.codes.iter().find(|&&code| self.ignore.has_code(code)) {
            return Err(Invalid::Code(code));
        }
        let both = |&fault: &Fault| self.record.has_fault(fault) && self.ignore.has_fault(fault);
        FAULTS.into_iter().find(both).map_or(Ok(()), |fault| Err(Invalid::Fault(fault)))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::Failure;

    #[test]
    fn by_default_the_outcome_itself_says_what_is_bad() {
        let record = Record::default();
        assert_eq!(record.verdict(&Outcome::Success), Some(true));
        assert_eq!(record.verdict(&Outcome::Abandoned), None);
        assert_eq!(record.verdict(&Outcome::Defer { after: Duration::ZERO }), None);
        for fault in FAULTS {
            for bad in [false, true] {
                let outcome = Outcome::Failed(Failure { bad, ..Failure::of(fault).with_code(503) });
                assert_eq!(record.verdict(&outcome), outcome.is_bad().then_some(false));
            }
        }
    }

    #[test]
    fn a_code_is_more_specific_than_a_kind() {
        let (codes, kinds) = (List::of(&[429], &[]), List::of(&[], &[Fault::Overload]));
        let overload = Outcome::Failed(Failure::of(Fault::Overload).with_code(429));
        let counts = Record { record: codes.clone().unwrap(), ignore: kinds.clone().unwrap() };
        assert_eq!(counts.verdict(&overload), Some(false));
        let ignores = Record { record: kinds.unwrap(), ignore: codes.unwrap() };
        assert_eq!(ignores.verdict(&overload), None);
    }

    #[test]
    fn a_failure_without_a_code_is_in_no_list_of_codes() {
        let record = Record { ignore: List::of(&[500], &[]).unwrap(), ..Record::default() };
        assert_eq!(record.verdict(&Outcome::Failed(Failure::of(Fault::Timeout))), Some(false));
    }

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        let (five, timeouts) = (List::of(&[500], &[]), List::of(&[], &[Fault::Timeout]));
        let twice = |list: Result<List, Invalid>| {
            let list = list.unwrap();
            Record { record: list, ignore: list }.check()
        };
        let errors = [
            List::of(&[500; 17], &[]).unwrap_err(),
            List::of(&[0], &[]).unwrap_err(),
            twice(five).unwrap_err(),
            twice(timeouts).unwrap_err(),
        ];
        for message in errors.map(|error| error.to_string()) {
            assert!(message.starts_with("breaker.") && message.contains("write"), "{message}");
        }
    }
}
