//! CRC-64/XZ: the polynomial of ECMA-182, reflected, eight bytes at a time.
//!
//! It detects accidental damage: every burst of errors within 64 bits, and any other error except
//! with a probability of 1 in 2^64. It does not detect tampering.

const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

/// `TABLES[z][byte]` is the CRC of `byte` followed by `z` zero bytes.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u64, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// The CRC of `bytes`.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let mut crc = u64::MAX;
    let mut eights = bytes.chunks_exact(8);
    for eight in &mut eights {
        let word = crc ^ u64::from_le_bytes(eight.try_into().expect("eight bytes"));
        crc = word
            .to_le_bytes()
            .iter()
            .zip(TABLES.iter().rev())
            .fold(0, |crc, (byte, table)| crc ^ table[usize::from(*byte)]);
    }
    for byte in eights.remainder() {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc.to_le_bytes()[0] ^ byte)];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_the_standard_input_is_the_published_value() {
        assert_eq!(checksum(b"123456789"), 0x995d_c9bb_df19_39fa);
        assert_eq!(checksum(b""), 0);
    }

    /// The entries of a program that makes them while it runs, which are those that the compiler made.
    #[test]
    fn an_entry_is_the_remainder_of_its_byte_and_so_many_zeros() {
        let tables = tables();
        // The first ones of XZ Utils.
        let published = [0, 0xb32e_4cbe_03a7_5f6f, 0xf484_3657_a840_a05b, 0x47aa_7ae9_abe7_ff34];
        assert_eq!(tables[0][..4], published);
        for (zeros, byte) in (0..8).flat_map(|zeros| (0..256).map(move |byte| (zeros, byte))) {
            let divide = |rest: u64, _| rest >> 1 ^ if rest % 2 == 1 { POLYNOMIAL } else { 0 };
            let remainder = (0..8 * (1 + zeros)).fold(byte as u64, divide);
            assert_eq!(tables[zeros][byte], remainder, "{byte} and {zeros} zeros");
        }
        assert_eq!(tables, TABLES);
    }

    #[test]
    fn eight_bytes_at_a_time_give_the_same_checksum_as_single_bytes() {
        let bytes: Vec<u8> = (0..100_u8).map(|byte| byte.wrapping_mul(37)).collect();
        for length in 0..bytes.len() {
            let one_by_one = bytes[..length].iter().fold(u64::MAX, |crc, byte| {
                crc >> 8 ^ TABLES[0][usize::from(crc.to_le_bytes()[0] ^ byte)]
            });
            assert_eq!(checksum(&bytes[..length]), !one_by_one);
        }
    }
}
