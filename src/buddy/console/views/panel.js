// @ts-check
/** The figures of a session at the point in view: small plots over turns, budget, open calls, files. */

import { html } from "../vendor/preact.js";
import { baseName, cut, duration, money, plural, tokens, visible } from "../text.js";

const PLOTTED = 60;
const MAX_FILES = 30;

/** @param {{log: import("../session_log.js").SessionLog}} props */
export function Panel({ log }) {
  const view = log.view;
  const turns = view.turns.slice(-PLOTTED);
  const run = view.active ? view.runs.get(view.active) : [...view.runs.values()].at(-1);
  const open = [...view.calls.values()].filter((item) => ["open", "waiting", "approved", "running"].includes(item.state));
  let spent = view.turns.slice(0, -PLOTTED).reduce((sum, turn) => sum + (turn.costUsd ?? 0), 0);
  const costs = turns.map((turn) => (spent += turn.costUsd ?? 0));
  const files = [...view.files.values()];
  return html`<aside class="panel" aria-label="Figures" tabindex="0">
    ${log.at.value ? html`<p class="as-of">As of event ${log.at.value}</p>` : null}
    <section><h2>Context</h2>
      ${view.context
        ? html`<p class="big">${tokens(view.context.used)} <small>of ${tokens(view.context.limit)}${view.context.assumed ? " (assumed)" : ""}</small></p>
            <${Bars} values=${turns.map((turn) => turn.used)} most=${view.context.limit} label="Context used, by turn" />`
        : html`<p class="muted">Not known yet</p>`}
    </section>
    <section><h2>Tokens</h2>
      <p class="big">${tokens(view.inputTokens)} <small>in</small> ${tokens(view.outputTokens)} <small>out</small></p>
      ${turns.length ? html`<${Bars} values=${turns.map((turn) => turn.input + turn.output)} label="Tokens, by turn" />` : null}
    </section>
    ${view.costUsd == null ? null : html`<section><h2>Cost</h2><p class="big">${money(view.costUsd)}</p><${Bars} values=${costs} label="Cost so far, by turn" /></section>`}
    ${run?.budget ? html`<${Budget} budget=${run.budget} />` : null}
    ${open.length
      ? html`<section><h2>Open calls</h2><ul class="plain-list">${open.map((item) => html`<li>${visible(item.name)} <span class="muted">${item.state}</span></li>`)}</ul></section>`
      : null}
    ${files.length
      ? html`<section><h2>${plural(files.length, "file")} changed</h2>
          <ul class="plain-list files">${files.slice(-MAX_FILES).map((file) => html`<li title=${visible(file.path)}>${visible(cut(baseName(file.path), 40))} <span class="muted">${file.changes > 1 ? `×${file.changes}` : ""}</span></li>`)}</ul>
          ${files.length > MAX_FILES ? html`<p class="muted note">and ${files.length - MAX_FILES} more in Changes</p>` : null}</section>`
      : null}
  </aside>`;
}

/** @param {{values: number[], label: string, most?: number}} props */
function Bars({ values, label, most }) {
  const top = most || Math.max(...values, 1);
  const width = 100 / Math.max(values.length, 12);
  const last = values.at(-1) ?? 0;
  return html`<svg class="bars" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label=${`${label}: last ${Math.round(last * 10000) / 10000}`}>
    ${values.map((value, at) => {
      const height = Math.max(0.6, (24 * Math.min(value, top)) / top);
      return html`<rect x=${at * width} y=${24 - height} width=${width * 0.8} height=${height} />`;
    })}
  </svg>`;
}

/** @param {{budget: any}} props */
function Budget({ budget }) {
  const limits = budget.limits ?? {};
  const lines = [
    ["turns", budget.turns, limits.maxTurns, String],
    ["tool calls", budget.toolCalls, limits.maxToolCalls, String],
    ["tokens", budget.tokens, limits.maxTokens, tokens],
    ["cost", budget.costUsd ?? 0, limits.maxCostUsd, money],
    ["time", budget.seconds * 1000, limits.maxSeconds && limits.maxSeconds * 1000, duration],
  ].filter(([, , limit]) => limit);
  if (!lines.length) return null;
  return html`<section><h2>Budget of the run</h2>
    ${lines.map(
      ([name, used, limit, words]) => html`<label class="meter-line">${name} <span class="muted">${words(used)} of ${words(limit)}</span>
        <meter min="0" max=${limit} value=${used} high=${limit * 0.8}></meter></label>`,
    )}
  </section>`;
}
