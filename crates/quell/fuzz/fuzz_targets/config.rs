//! Config files as a tired operator may write them: none breaks the reader, and what is read means the same after it was
//! printed and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell::config::Config;

fuzz_target!(|text: &str| {
    match Config::parse("fuzz.toml", text, &[]) {
        Ok(config) => {
            let printed = config.effective();
            let again = Config::parse("printed.toml", &printed, &[])
                .unwrap_or_else(|problems| panic!("{problems}\nin what was printed:\n{printed}"));
            assert_eq!(again.effective(), printed);
        }
        Err(problems) => assert!(!problems.to_string().is_empty()),
    }
});
