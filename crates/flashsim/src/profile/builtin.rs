/// A profile that comes with the crate.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Its TOML text, whose first lines say where the numbers are from.
    pub text: &'static str,
}

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        /// All profiles that come with the crate.
        pub const BUILTIN: &[Builtin] = &[$(Builtin {
            name: $name,
            text: include_str!(concat!("../../profiles/", $name, ".toml")),
        }),*];
    };
}

builtin! {
    "msr2008", "msr-siw", "msr-mcewan", "ssdsim-pdb", "femu-ioda", "sata-mlc", "nvme-tlc", "mqsim",
}
