//! The name of this machine's processor.

use std::fs;

/// A processor, as the operating system describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its model, and for AMD's the generation, which a virtual machine's model does not tell: "AMD EPYC Zen 3".
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
        let mut name = field("model name").unwrap_or("unknown processor").to_owned();
        if let (Some("AuthenticAMD"), Some(family), Some(model)) =
            (field("vendor_id"), number("cpu family"), number("model"))
            && let Some(zen) = zen(family, model)
        {
            name.push_str(&format!(" Zen {zen}"));
        }
        Self { name, is_virtual: cpuinfo.contains(" hypervisor") }
    }

    /// The folder of its results: "Intel(R) Xeon(R) Processor" becomes intel-xeon.
    #[must_use]
    pub fn folder(&self) -> String {
        let plain = short(&self.name).to_lowercase();
        let words = plain.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
    }
}

/// A processor's name in a few words: "Intel(R) Xeon(R) Processor (virtual)" is "Intel Xeon".
pub(crate) fn short(name: &str) -> String {
    let plain = name.split(" @ ").next().unwrap_or_default().replace("(R)", "").replace("(TM)", "");
    let words = plain.split_whitespace();
    let words = words.filter(|word| !["Processor", "CPU", "(virtual)"].contains(word));
    words.collect::<Vec<_>>().join(" ")
}

/// The generation of AMD's processors since 2017, by the numbers that Linux tells them apart by.
fn zen(family: u32, model: u32) -> Option<u32> {
    match (family, model) {
        (0x17, 0x00..=0x2f | 0x50..=0x5f) => Some(1),
        (0x17, _) => Some(2),
        (0x19, 0x00..=0x0f | 0x20..=0x5f) => Some(3),
        (0x19, 0x10..=0x1f | 0x60..=0xaf) => Some(4),
        (0x1a, 0x00..=0x2f | 0x40..=0x4f | 0x60..=0x7f) => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amd(family: u32, model: u32) -> Processor {
        Processor::parse(&format!(
            "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: {family}\nmodel\t\t: {model}\n\
             model name\t: AMD EPYC\nflags\t\t: fpu hypervisor\n"
        ))
    }

    #[test]
    fn generations_of_one_model_name_have_folders_of_their_own() {
        let milan = Processor { name: "AMD EPYC Zen 3".to_owned(), is_virtual: true };
        assert_eq!(amd(25, 1), milan);
        assert_eq!(
            [amd(23, 49), amd(25, 1), amd(25, 17), amd(26, 2), amd(99, 0)].map(|one| one.folder()),
            ["amd-epyc-zen-2", "amd-epyc-zen-3", "amd-epyc-zen-4", "amd-epyc-zen-5", "amd-epyc"]
        );
    }

    #[test]
    fn a_name_is_short() {
        let xeon = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\
                    model name\t: Intel(R) Xeon(R) Processor @ 2.70GHz\n";
        let xeon = Processor::parse(xeon);
        assert_eq!((xeon.folder().as_str(), xeon.is_virtual), ("intel-xeon", false));
        assert_eq!(short("Intel(R) Xeon(R) Processor (virtual)"), "Intel Xeon");
        assert_eq!(short("AMD EPYC Zen 3 (virtual)"), "AMD EPYC Zen 3");
        assert_eq!(Processor::parse("").folder(), "unknown-processor");
    }
}
