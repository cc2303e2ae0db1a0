// @ts-check
// Log in by the link's token, connect, and list the sessions.

const status = /** @type {HTMLElement} */ (document.getElementById("status"));
const list = /** @type {HTMLElement} */ (document.getElementById("sessions"));

async function logIn() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(null, "", location.pathname);
  const answer = token
    ? await fetch("/login", { method: "POST", body: JSON.stringify({ token }) })
    : await fetch("/login");
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

/** @param {string} role */
function connect(role) {
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`, "push.runtime.v1");
  let next = 0;
  /** @param {string} type @param {object} payload */
  const send = (type, payload) =>
    socket.send(JSON.stringify({ v: "push.runtime.v1", kind: "request", requestId: `req_${++next}`, type, payload }));
  socket.onopen = () => {
    send("hello", { clientName: "console", clientVersion: "1", capabilities: [] });
    send("list_sessions", { limit: 200 });
  };
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.type !== "list_sessions") return;
    status.textContent = `Logged in as ${role}.`;
    list.replaceChildren(
      ...message.payload.sessions.map((/** @type {{sessionId: string, title?: string, state: string}} */ session) => {
        const row = document.createElement("li");
        row.textContent = `${session.title || session.sessionId} (${session.state})`;
        return row;
      }),
    );
  };
  socket.onclose = () => (status.textContent = "Disconnected.");
}

logIn().then(
  ({ role }) => connect(role),
  (error) => (status.textContent = error.message),
);
