"""What still breaks a budget, by rule and package; it may only shrink, and a number that is too high fails a test."""

ALLOWED = {
    ("large class", "tests/daemon"): 1,
    ("large class", "tests/faults"): 1,
    ("long file", "src/buddy/protocol"): 1,
    ("long file", "tests/cli"): 1,
    ("long file", "tests/log"): 1,
    ("long file", "tests/sessions"): 1,
    ("long file", "tests/targets"): 1,
}
