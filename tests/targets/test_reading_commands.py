"""Which commands are known to change nothing."""

import pytest

from buddy.targets.reading_commands import only_reads, only_reads_anywhere

READS = [
    *("true", "ls -la", "cat a.txt | head -5", "cd src && ls", "rg foo src", "grep -rn 'x y' . 2>/dev/null"),
    *("find . -name '*.py' | sort | uniq -c | sort -rn", "sed -n 1,20p f", "sed -n '1,20p' f", "wc -l *.py 2>&1"),
    *("[ -f x ] && echo yes || echo no", "uniq -c", "diff a b", "ls > /dev/null 2>&1", "sort -k2 f; pwd"),
]
WRITES = [
    *("touch x", "mkdir a", "cp a b", "tee x", "python x", "git status", "sed -i s/a/b/ f", "sed -n 1p f -i"),
    *("echo a > f", "echo a >f", "cat x >> y", "echo a &> f", "echo x 1<> f", "ls >/dev/null/../f", "ls > /dev/nullx"),
    *(
        "sort -o f f",
        "sort -uo f f",
        "sort f --output=f",
        "uniq a b",
        "uniq -c a b",
        "find . -fprint x",
        "find . -delete",
    ),
    *("find . -exec rm {} +", "rg --pre x", "ls $(touch x)", "ls `touch x`", "cat <(touch x)", "ls & touch x"),
    *("ls\ntouch x", "ls; rm b", "ls | xargs rm", "x=1 ls", "./ls", "ls() { rm b; }", "test -w f", "[ -w f ]"),
]


@pytest.mark.parametrize("command", READS)
def test_a_command_that_only_reads_is_found(command: str) -> None:
    assert only_reads(command)


@pytest.mark.parametrize("command", WRITES)
def test_what_may_write_or_would_notice_that_it_cannot_is_not(command: str) -> None:
    assert not only_reads(command)


@pytest.mark.parametrize(
    "command", ["sort *", "ls | uniq ?", "sed -n 1p *", "rg x *", "cd a && find * -name x", "touch x"]
)
def test_without_a_sandbox_a_file_named_like_an_option_may_be_what_writes(command: str) -> None:
    assert not only_reads_anywhere(command)


@pytest.mark.parametrize("command", ["true", "ls *", "cat a.txt | sort | uniq -c", "grep -rn x ."])
def test_what_has_no_such_option_only_reads_anywhere(command: str) -> None:
    assert only_reads_anywhere(command)
