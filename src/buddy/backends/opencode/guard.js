// OpenCode asks before it runs the programs that it finds in a command. It finds none in `> file`, `cd . > file` or
// `export A > file`, and runs them without asking. This refuses anything that does not clearly start with a
// program; the approval for the rest shows the complete command.
const WORD = String.raw`[\w./~+@%:-]+`;
const VALUE = String.raw`(?:[\w./~+@%:,-]*|'[^'\n]*'|"[^"$\x60\\\n]*")`;
const ARGUMENT = String.raw`(?:${WORD}|'[^'\n]*'|"[^"$\x60\\\n]*")`;
// What may come before the first program: it is harmless by itself and has no redirection.
const BEFORE = [
  String.raw`#[^\n]*\n`,
  String.raw`(?:cd|pushd|popd|chdir)(?:[ \t]+${ARGUMENT})?[ \t]*(?:&&|;|\n)`,
  String.raw`export(?:[ \t]+\w+=${VALUE})+[ \t]*(?:&&|;|\n)`,
  String.raw`\w+=${VALUE}(?:[ \t]+|[ \t]*(?:&&|;|\n))`,
  String.raw`(?:!|time|if|while|until|then|do)[ \t\n]+`,
  String.raw`for[ \t]+\w+[ \t]+in(?:[ \t]+[\w./~*?-]+)+[ \t]*[;\n][ \t\n]*do[ \t\n]+`,
  String.raw`\[[ \t][^\]\n;&|<>()$\x60'"#]*\][ \t]*(?:&&|\|\||;[ \t]*then[ \t\n])`,
  String.raw`[({][ \t\n]+`,
  String.raw`\((?!\()`,
];
const START = new RegExp(String.raw`^\s*(?:(?:${BEFORE.join("|")})\s*)*(?!\d+[<>])(${WORD})(?=[\s;&|<>)]|$)`);
// Words of the shell, and commands that OpenCode's own reading does not count.
const UNASKED = new Set(
  (
    "cd chdir pushd popd export declare typeset readonly local unset unsetenv if then else elif fi for while until " +
    "do done case esac select function time coproc in"
  ).split(" "),
);

export const check = (command) => {
  const start = START.exec(command);
  if (!start || UNASKED.has(start[1])) {
    throw new Error(
      "Not run: Buddy cannot ask about a command that does not start with a program. " +
        "Start it with one, for example `: > file` instead of `> file`.",
    );
  }
};

export const BuddyGuard = async () => ({
  "tool.execute.before": async (input, output) => {
    if (input.tool === "bash" || input.tool === "shell") check(String(output.args?.command ?? ""));
  },
});
