"""Proves the properties of the models, plants the mistakes, and compares the models with the Rust.

    prove.py [--vectors PROGRAM] [MODEL ...]

One line for each property (PROVED, FAILED or UNKNOWN), for each planted fault (CAUGHT or MISSED),
and for each comparison (EQUAL or DIFFERS). The exit status is 1 unless every line says PROVED, CAUGHT or EQUAL.
"""

import argparse
import collections
import importlib
import sys
import types
from pathlib import Path

MODELS = Path(__file__).parent / "models"
sys.path.insert(0, str(MODELS))

import kit
import vectors

# Every file except `kit`, which all of them use.
NAMES = sorted(file.stem for file in MODELS.glob("*.py") if file.stem != "kit")
# Properties that may stay unproved, each with the reason. There are none.
OPEN = {}
# How many lines say so.
COUNTS = collections.Counter()


def report(status, model, what, seconds, why=""):
    COUNTS[status] += 1
    print(f"{status:8} {seconds:6.2f} s  {model}: {what}", flush=True)
    if why:
        print(f"         {why}", flush=True)


def mutated(name, fault):
    """The model with the mistake planted in its text."""
    text = (MODELS / f"{name}.py").read_text()
    text, faults = text.split("\nFAULTS = ", 1)
    assert text.count(fault.old) == 1, f"{name}: {fault.old!r} occurs {text.count(fault.old)} times"
    module = types.ModuleType(f"{name}_mutated")
    exec(compile(text.replace(fault.old, fault.new), f"{name} with a mistake", "exec"), module.__dict__)
    return module


def prove_all(name):
    good = True
    module = importlib.import_module(name)
    for property_ in module.PROPERTIES:
        verdict, seconds = kit.timed(lambda: kit.prove(property_))
        report(verdict.status, name, property_.name, seconds, verdict.why or OPEN.get(property_.name, ""))
        allowed = verdict.status == "UNKNOWN" and property_.name in OPEN
        good &= verdict.status == "PROVED" or allowed
    return good & plant_all(name, module)


def plant_all(name, module):
    good = True
    without = {p.name for p in module.PROPERTIES} - {f.property for f in module.FAULTS}
    for property_ in sorted(without):
        report("FAILED", name, f"no mistake is planted for: {property_}", 0)
        good = False
    for fault in module.FAULTS:
        broken = {p.name: p for p in mutated(name, fault).PROPERTIES}[fault.property]
        verdict, seconds = kit.timed(lambda: kit.prove(broken))
        caught = verdict.status == "FAILED" and "contradict" not in verdict.why
        report("CAUGHT" if caught else "MISSED", name, fault.what, seconds,
               "" if caught else f"{verdict.status} {verdict.why}")
        good &= caught
    return good


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--vectors", help="the program that answers with the Rust code")
    arguments.add_argument("models", nargs="*", choices=[[], *NAMES], default=[])
    given = arguments.parse_args()
    names = given.models or NAMES
    good = True
    for name in names:
        good &= prove_all(name)
    if given.vectors:
        good &= vectors.compare_all(given.vectors, names, report)
    if good:
        print(f"proofs: {COUNTS['PROVED']} properties proved, {COUNTS['CAUGHT']} planted faults caught, "
              f"{COUNTS['EQUAL']} models equal to the Rust")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
