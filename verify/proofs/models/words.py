"""Bit fields of a word (`src/word.rs`).

The models say a field in arithmetic: dividing by a power of two, and adding what is apart. That this
is what shifts, masks and `|` do is proved here on 64-bit vectors, for every shift and every width.
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
    """A word by its fields: any that there are. (That fields do not touch each other is proved
    below.) Whatever lies above them is `above`."""

    def __init__(self, parts, above=0):
        self.parts, self.above = parts, above

    @classmethod
    def of(cls, word, bits):
        """A number that is all that lies below so many bits."""
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
        """Whether nothing lies from that bit on."""
        highest = max(shift + width for shift, width in self.parts)
        return kit.And(highest <= bits, self.above == 0)

    def __eq__(self, other):
        return kit.And(self.above == other.above, *(p == other.parts[a] for a, p in self.parts.items()))

    __hash__ = None


def fits(word, bits):
    """Whether a word, of parts or whole, has nothing from that bit on."""
    return word.payload_below(bits) if isinstance(word, Packed) else word < 2**bits


def vectors():
    """`of` and `set` as the Rust has them, and as the models do, for any shift and width."""
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
    # 2^shift as a vector; what is apart is added without a carry, and taken away without a borrow.
    kept, own = word & ~(max_ << shift), (value & max_) << shift
    taken = of(word) << shift
    return z3.And(set_ == kept | own, kept & own == 0, kept & taken == 0, kept | taken == word)


def apart_is_a_sum():
    """What has no bit in common is added by `|`."""
    a, b = z3.BitVecs("a b", 64)
    return z3.Implies(a & b == 0, z3.And(a | b == a + b, z3.ULE(a, MAX - b)))


def tiles(word, value, shift, bits, fits, max_, of, set_):
    # Two fields, the second above the first: together they are all of the bits below its end.
    low = z3.LShR(z3.BitVecVal(MAX, 64), 64 - shift)
    whole = z3.LShR(z3.BitVecVal(MAX, 64), 64 - shift - bits)
    above = max_ << shift
    return z3.Implies(shift > 0, z3.And(low & above == 0, low | above == whole))


PROPERTIES = [
    Property("a field keeps its value and leaves the rest", in_vectors(keeps)),
    Property("what is kept and what is set have no bit in common", in_vectors(is_arithmetic)),
    Property("what has no bit in common is added without a carry",
             lambda: iter([("any two words", apart_is_a_sum)])),
    Property("a field above another: both tile the bits, each once", in_vectors(tiles)),
]

FAULTS = [
    Fault("the value is not masked", "a field keeps its value and leaves the rest",
          "| ((value & max_) << shift)", "| (value << shift)"),
    Fault("the old value stays", "what is kept and what is set have no bit in common",
          "(word & ~(max_ << shift)) |", "word |"),
    Fault("a bit in common", "what has no bit in common is added without a carry",
          "z3.Implies(a & b == 0,", "z3.Implies(a & b == 1,"),
    Fault("the second field begins one bit late", "a field above another: both tile the bits, each once",
          "above = max_ << shift", "above = max_ << (shift + 1)"),
]
