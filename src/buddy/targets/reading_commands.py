"""Commands that only read, by their words alone: a sandbox can run them with everything read-only.

Invariants: what is not known to write nothing is not found; a quoted or unusual word makes a command unknown rather
than found. A sandbox enforces what is found here, so an error would make a command fail, not change a file. Where
nothing enforces it, a command whose wildcards could name a file like an option that writes is not found either.
"""

import re

_PROGRAMS = (
    r"(?:true|false|echo|printf|pwd|cd|ls|cat|head|tail|wc|stat|uname|whoami|id|which|grep|cut|tr|nl|tac|comm|jq"
    r"|basename|dirname|realpath|readlink|du|df|sha256sum|md5sum|diff|cmp|sleep)"
    r"|(?:test|\[)(?! .*-w)"
    r"|sed -n [\"']?\d+(?:,\d+)?p[\"']?(?!\S| .*-)"
    r"|uniq(?= -|$)(?! .* [^-])"
    r"|(?:find|rg|sort)(?! .*(?:-exec|-ok|-delete|-f(?:print|ls)|-writable|--pre|--host|--co|-\w*o|--o|\S[\"']\S|\{))"
)
# Redirections are to nowhere or to the other stream.
_ARGUMENTS = r"(?: (?>[12]?>&[12]|[12&]?> ?/dev/null(?=\s|$)|[^&;|$`()\n\\<>])*+)?"
_READS = re.compile(f"(?:{_PROGRAMS}){_ARGUMENTS}")
# `sort *` writes if a file is called `-oresult`.
_WRITES_IF_TOLD = re.compile(r"\b(?:sed|uniq|find|rg|sort)\b.*[*?\[]")


def only_reads(command: str) -> bool:
    """Whether a command is known to change nothing."""
    return all(_READS.fullmatch(part.strip(" ")) for part in re.split(r"&&|\|\||[;|]", command))


def only_reads_anywhere(command: str) -> bool:
    """The same without a sandbox."""
    return only_reads(command) and _WRITES_IF_TOLD.search(command) is None
