"""Run a filter of system calls as the kernel would, for any architecture."""

import struct

LOAD, AND, EQUAL, AT_LEAST, ANY_OF, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06


def decide(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the filter answers to a call."""
    padded = [argument & 0xFFFFFFFFFFFFFFFF for argument in (*arguments, *[0] * 6)][:6]
    data = struct.pack("=iIQ6Q", number, architecture, 0, *padded)
    steps = list(struct.iter_unpack("HBBI", program))
    at, held = 0, 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        if code == RETURN:
            return value
        if code == LOAD:
            held = struct.unpack_from("=I", data, value)[0]
        elif code == AND:
            held &= value
        else:
            met = {EQUAL: held == value, AT_LEAST: held >= value, ANY_OF: held & value != 0}[code]
            at += yes if met else no
