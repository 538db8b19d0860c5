"""Bit fields of a word (`src/word.rs`).

The models express a field in arithmetic: they divide by a power of two, and add numbers without common
bits. It is proved here on 64-bit vectors, for every shift and width, that shifts, masks and `|` do the same.
"""

import kit
import z3
from kit import MAX, Fault, Property, U


class Field:
    """The field of `bits` bits that begins at bit `shift`."""

    def __init__(self, shift, bits):
        assert bits >= 1 and shift + bits <= 64, "a field must lie inside the word"
        self.shift, self.bits, self.max = shift, bits, MAX >> (64 - bits)

    def above(self, bits):
        return Field(self.shift + self.bits, bits)

    def of(self, word):
        if isinstance(word, Packed):
            return word.parts[self.shift, self.bits]
        return (word >> self.shift) & self.max

    def set(self, word, value):
        value = value if isinstance(value, U) else U(value)
        word = word if isinstance(word, U | Packed) else U(word)
        if isinstance(word, Packed) or not isinstance(word.v, int) or not isinstance(value.v, int):
            return Packed.of(word, self.shift).having(self, value & self.max)
        kept = word.v - self.of(word).v * 2**self.shift
        return U(kept + (value & self.max).v * 2**self.shift)


class Packed:
    """A word as its fields. (It is proved below that fields do not overlap.) `above` is the number in the
    bits above them."""

    def __init__(self, parts, above=0):
        self.parts, self.above = parts, above

    @classmethod
    def of(cls, word, bits):
        """A word whose lowest `bits` bits are one number, and whose other bits are 0."""
        if isinstance(word, Packed):
            return word
        kit.CONTEXT.require(word.v < 2**bits, "a field overflows into the next")
        return cls({(0, bits): word} if bits else {})

    def having(self, field, value):
        return Packed({**self.parts, (field.shift, field.bits): value}, self.above)

    def either(self, condition, otherwise):
        same = {at: kit.If(condition, part, otherwise.parts[at]) for at, part in self.parts.items()}
        return Packed(same, kit.If(condition, U(self.above), U(otherwise.above)).v)

    def payload_below(self, bits):
        """Whether all bits from bit `bits` on are 0."""
        highest = max(shift + width for shift, width in self.parts)
        return kit.And(highest <= bits, self.above == 0)

    def __eq__(self, other):
        return kit.And(self.above == other.above, *(p == other.parts[a] for a, p in self.parts.items()))

    __hash__ = None


def fits(word, bits):
    """Whether all bits of the word from bit `bits` on are 0."""
    return word.payload_below(bits) if isinstance(word, Packed) else word < 2**bits


def vectors():
    """`of` and `set` as in the Rust, for any shift and width."""
    word, value, shift, bits = z3.BitVecs("word value shift bits", 64)
    fits = [z3.UGE(bits, 1), z3.ULE(bits, 64), z3.ULT(shift, 64), z3.ULE(shift + bits, 64)]
    max_ = z3.LShR(z3.BitVecVal(MAX, 64), 64 - bits)
    of = lambda word: z3.LShR(word, shift) & max_
    set_ = (word & ~(max_ << shift)) | ((value & max_) << shift)
    return word, value, shift, bits, fits, max_, of, set_


def in_vectors(goal):
    def claims():
        def state():
            from kit import fact

            *rest, fits, max_, of, set_ = (parts := vectors())
            fact(*fits)
            return goal(*parts)

        yield "any shift, width, word and value", state

    return claims


def keeps(word, value, shift, bits, fits, max_, of, set_):
    mask = max_ << shift
    return z3.And(
        of(set_) == value & max_, set_ & ~mask == word & ~mask, z3.ULE(of(word), max_)
    )


def is_arithmetic(word, value, shift, bits, fits, max_, of, set_):
    # Numbers without common bits are added without a carry, and subtracted without a borrow.
    kept, own = word & ~(max_ << shift), (value & max_) << shift
    taken = of(word) << shift
    return z3.And(set_ == kept | own, kept & own == 0, kept & taken == 0, kept | taken == word)


def disjoint_is_a_sum():
    """`|` adds numbers without common bits."""
    a, b = z3.BitVecs("a b", 64)
    return z3.Implies(a & b == 0, z3.And(a | b == a + b, z3.ULE(a, MAX - b)))


def tiles(word, value, shift, bits, fits, max_, of, set_):
    # Two fields, the second directly above the first, cover all bits below the end of the second.
    low = z3.LShR(z3.BitVecVal(MAX, 64), 64 - shift)
    whole = z3.LShR(z3.BitVecVal(MAX, 64), 64 - shift - bits)
    above = max_ << shift
    return z3.Implies(shift > 0, z3.And(low & above == 0, low | above == whole))


PROPERTIES = [
    Property("a field keeps its value and does not change other bits", in_vectors(keeps)),
    Property("kept and set bits are disjoint", in_vectors(is_arithmetic)),
    Property("disjoint numbers are added without a carry",
             lambda: iter([("any two words", disjoint_is_a_sum)])),
    Property("a field directly above another tiles the bits", in_vectors(tiles)),
]

FAULTS = [
    Fault("the value is not masked", "a field keeps its value and does not change other bits",
          "| ((value & max_) << shift)", "| (value << shift)"),
    Fault("the old value stays", "kept and set bits are disjoint",
          "(word & ~(max_ << shift)) |", "word |"),
    Fault("the numbers have a bit in common", "disjoint numbers are added without a carry",
          "z3.Implies(a & b == 0,", "z3.Implies(a & b == 1,"),
    Fault("the second field begins one bit late", "a field directly above another tiles the bits",
          "above = max_ << shift", "above = max_ << (shift + 1)"),
]
