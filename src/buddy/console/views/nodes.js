// @ts-check
/** The daemons that share the log: shown to the owner where there are several. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { ask, connection, now, say } from "../store.js";
import { ago, visible } from "../text.js";

const LOOK_MS = 5000;

/** @typedef {{node: string, state: string, version: string, runs: number, sessions: number, lastSeen: number}} NodeInfo */

export function Nodes() {
  const [nodes, setNodes] = useState(/** @type {NodeInfo[]} */ ([]));
  const isOnline = connection.state.value === "online";
  const isFleet = nodes.length > 1;
  useEffect(() => {
    if (!isOnline) return;
    const look = () => connection.request("list_nodes").then((/** @type {any} */ reply) => setNodes(reply.nodes), () => {});
    look();
    const timer = isFleet ? setInterval(look, LOOK_MS) : undefined;
    return () => clearInterval(timer);
  }, [isOnline, isFleet]);
  if (!isFleet) return null;
  return html`<section class="nodes" aria-label="Nodes">
    <h2>Nodes</h2>
    <table>
      <thead><tr><th>Node</th><th>State</th><th>Runs</th><th>Sessions</th><th>Version</th><th>Seen</th><th></th></tr></thead>
      <tbody>${nodes.map((one) => html`<${Row} one=${one} />`)}</tbody>
    </table>
  </section>`;
}

/** @param {{one: NodeInfo}} props */
function Row({ one }) {
  const drain = () => ask("drain_node", { node: one.node }).then((/** @type {any} */ reply) => reply && say(`${one.node} hands over its sessions.`));
  return html`<tr>
    <td>${visible(one.node)}</td>
    <td><span class=${`chip ${one.state === "ready" ? "" : "waiting"}`}>${one.state}</span></td>
    <td>${one.runs}</td>
    <td>${one.sessions}</td>
    <td>${visible(one.version)}</td>
    <td>${ago(one.lastSeen, now.value)}</td>
    <td>${one.state === "ready" ? html`<button class="quiet" onClick=${drain}>Drain</button>` : null}</td>
  </tr>`;
}
