#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| replay::fuzz::fuzz_frontend(bytes));
