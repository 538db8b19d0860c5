//! The name of this machine's processor.

use std::fs;

/// A processor, as the operating system describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its model and its generation, which a virtual machine's model does not tell: "AMD EPYC Zen 3".
    pub name: String,
    /// Whether it is that of a virtual machine.
    pub is_virtual: bool,
}

impl Processor {
    /// The processor of this machine.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self::parse(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    fn parse(cpuinfo: &str) -> Self {
        let field = |name: &str| {
            let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            fields.find_map(|(key, value)| (key.trim() == name).then(|| value.trim()))
        };
        let number = |name| field(name).and_then(|digits| digits.parse().ok());
        // Without the frequency, which some names end with.
        let name = field("model name").and_then(|name| name.split(" @ ").next());
        let mut name = name.unwrap_or("unknown processor").to_owned();
        if let (Some(vendor), Some(family), Some(model)) =
            (field("vendor_id"), number("cpu family"), number("model"))
            && let Some(generation) = generation(vendor, family, model)
        {
            name = format!("{name} {generation}");
        }
        Self { name, is_virtual: cpuinfo.contains(" hypervisor") }
    }

    /// The folder of its results: "Intel(R) Xeon(R) Processor Ice Lake" becomes intel-xeon-ice-lake.
    #[must_use]
    pub fn folder(&self) -> String {
        let plain = short(&self.name).to_lowercase();
        let words = plain.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
    }
}

/// A processor's name in a few words: "Intel(R) Xeon(R) Processor (virtual)" is "Intel Xeon".
pub(crate) fn short(name: &str) -> String {
    let plain = name.replace("(R)", "").replace("(TM)", "");
    let words = plain.split_whitespace();
    let words = words.filter(|word| !["Processor", "CPU", "(virtual)"].contains(word));
    words.collect::<Vec<_>>().join(" ")
}

/// The generation of AMD's processors since 2017 and of Intel's for servers, by the numbers that Linux tells
/// them apart by.
fn generation(vendor: &str, family: u32, model: u32) -> Option<&'static str> {
    let generation = match (vendor, family, model) {
        ("AuthenticAMD", 0x17, 0x00..=0x2f | 0x50..=0x5f) => "Zen 1",
        ("AuthenticAMD", 0x17, _) => "Zen 2",
        ("AuthenticAMD", 0x19, 0x00..=0x0f | 0x20..=0x5f) => "Zen 3",
        ("AuthenticAMD", 0x19, 0x10..=0x1f | 0x60..=0xaf) => "Zen 4",
        ("AuthenticAMD", 0x1a, 0x00..=0x2f | 0x40..=0x4f | 0x60..=0x7f) => "Zen 5",
        ("GenuineIntel", 6, 0x55) => "Skylake",
        ("GenuineIntel", 6, 0x6a | 0x6c) => "Ice Lake",
        ("GenuineIntel", 6, 0x8f) => "Sapphire Rapids",
        ("GenuineIntel", 6, 0xa7) => "Rocket Lake",
        ("GenuineIntel", 6, 0xad | 0xae) => "Granite Rapids",
        ("GenuineIntel", 6, 0xcf) => "Emerald Rapids",
        _ => return None,
    };
    Some(generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(vendor: &str, family: u32, model: u32, name: &str) -> Processor {
        Processor::parse(&format!(
            "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
             model name\t: {name}\nflags\t\t: fpu hypervisor\n"
        ))
    }

    #[test]
    fn generations_of_one_model_name_have_folders_of_their_own() {
        let amd = |family, model| machine("AuthenticAMD", family, model, "AMD EPYC");
        let intel = |model| machine("GenuineIntel", 6, model, "Intel(R) Xeon(R) Processor");
        let milan = Processor { name: "AMD EPYC Zen 3".to_owned(), is_virtual: true };
        assert_eq!(amd(25, 1), milan);
        assert_eq!(
            [amd(23, 49), amd(25, 1), amd(25, 17), amd(26, 2), amd(99, 0)].map(|one| one.folder()),
            ["amd-epyc-zen-2", "amd-epyc-zen-3", "amd-epyc-zen-4", "amd-epyc-zen-5", "amd-epyc"]
        );
        assert_eq!(
            [intel(167), intel(207), intel(999)].map(|one| one.folder()),
            ["intel-xeon-rocket-lake", "intel-xeon-emerald-rapids", "intel-xeon"]
        );
    }

    #[test]
    fn a_name_is_short() {
        let xeon = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\
                    model name\t: Intel(R) Xeon(R) Processor @ 2.70GHz\n";
        let xeon = Processor::parse(xeon);
        assert_eq!(
            (xeon.folder().as_str(), xeon.is_virtual),
            ("intel-xeon-sapphire-rapids", false)
        );
        assert_eq!(short("Intel(R) Xeon(R) Processor (virtual)"), "Intel Xeon");
        assert_eq!(short("AMD EPYC Zen 3 (virtual)"), "AMD EPYC Zen 3");
        assert_eq!(Processor::parse("").folder(), "unknown-processor");
    }
}
