#![no_main]
libfuzzer_sys::fuzz_target!(init: hostile::ignore_broken_pipes(), |bytes: &[u8]| hostile::vm(bytes));
