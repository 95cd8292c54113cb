"use strict";
// All text of sessions is set as text, never as HTML: users and models wrote it.
const APP = "notes", USER = "ada", PAGE = 20;
const STORE = `/store/apps/${APP}/users/${USER}/sessions`;
const element = (id) => document.getElementById(id);
// A picture of the page needs no stream that stays open.
const isLive = !new URLSearchParams(location.search).has("still");
let session = null, stream = null, earlier = null, seen = new Set(), next = null;

async function ask(method, url, body) {
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  const answer = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  element("failure").textContent = "";
  if (!answer.ok) {
    element("failure").textContent = `${answer.status}: ${await answer.text()}`;
    throw new Error(answer.status);
  }
  return answer.status === 204 ? null : answer.json();
}

function button(words, act) {
  const made = document.createElement("button");
  made.textContent = words;
  made.onclick = act;
  return made;
}

async function listSessions(cursor) {
  const page = await ask("GET", `${STORE}?limit=${PAGE}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
  if (!cursor) element("sessions").replaceChildren();
  for (const info of page.sessions) {
    const item = document.createElement("li");
    const open = button(info.title || info.session_id, () => { location.hash = encodeURIComponent(info.session_id); });
    const last = document.createElement("small");
    last.textContent = info.last_text || "no message yet";
    open.append(last);
    item.append(open);
    element("sessions").append(item);
  }
  next = page.next_cursor;
  element("more").hidden = !next;
}

function shown(event) {
  const parts = (event.content && event.content.parts) || [];
  const words = parts.map((part) => part.text || (part.functionCall ? `⚙ ${part.functionCall.name}` : "")).join("");
  const item = document.createElement("li");
  item.className = event.author === "user" ? "user" : "agent";
  if (event.author === "user") item.append(button("Edit", () => fork(event.invocationId, words)));
  item.append(words);
  return words ? item : null;
}

function show(event, place) {
  if (seen.has(event.id)) return;
  seen.add(event.id);
  const item = shown(event);
  if (item) element("events")[place](item);
}

async function loadEarlier() {
  const cursor = earlier ? `&cursor=${encodeURIComponent(earlier)}` : "";
  const page = await ask("GET", `${STORE}/${encodeURIComponent(session)}/events?direction=backward&limit=${PAGE}${cursor}`);
  for (const each of page.events) show(each.event, "prepend");
  earlier = page.next_cursor;
  element("earlier").hidden = !earlier;
}

async function open() {
  if (stream) stream.close();
  session = decodeURIComponent(location.hash.slice(1)) || null;
  [earlier, seen] = [null, new Set()];
  element("events").replaceChildren();
  element("rename").hidden = !session;
  if (!session) return;
  const info = await ask("GET", `${STORE}/${encodeURIComponent(session)}`);
  element("title").textContent = info.title || info.session_id;
  await loadEarlier();
  if (!isLive) return;
  // The stream begins with events that are shown already, so that none is missed between the two requests.
  stream = new EventSource(`${STORE}/${encodeURIComponent(session)}/follow?last=${PAGE}`);
  stream.onmessage = (message) => show(JSON.parse(message.data), "append");
  stream.addEventListener("end", () => { stream.close(); open(); });
}

async function create(title) {
  const made = await ask("POST", `/apps/${APP}/users/${USER}/sessions`, {});
  if (title) await describe(made.id, title);
  await listSessions();
  location.hash = encodeURIComponent(made.id);
}

async function fork(invocation, words) {
  const made = await ask("POST", `${STORE}/${encodeURIComponent(session)}/fork`, { at: { before_invocation: invocation } });
  await listSessions();
  location.hash = encodeURIComponent(made.session_id);
  element("words").value = words;
}

function describe(id, title) {
  return ask("PATCH", `${STORE}/${encodeURIComponent(id)}`, { title: title || null });
}

async function rename() {
  const title = prompt("Title", element("title").textContent);
  if (title === null) return;
  await describe(session, title);
  element("title").textContent = title || session;
  await listSessions();
}

// The first message is the title, until the user gives another one. By characters: half of one is no text.
async function titleFrom(words) {
  const title = Array.from(words).slice(0, 60).join("");
  if (!session) return create(title);
  const info = await ask("GET", `${STORE}/${encodeURIComponent(session)}`);
  if (info.title || info.last_text) return;
  await describe(session, title);
  element("title").textContent = title;
}

async function say(submitted) {
  submitted.preventDefault();
  const words = element("words").value;
  element("words").value = "";
  await titleFrom(words);
  const id = decodeURIComponent(location.hash.slice(1));
  const newMessage = { role: "user", parts: [{ text: words }] };
  await ask("POST", "/run", { appName: APP, userId: USER, sessionId: id, newMessage });
  await listSessions();
}

element("new").onclick = () => create();
element("more").onclick = () => listSessions(next);
element("earlier").onclick = loadEarlier;
element("rename").onclick = rename;
element("say").onsubmit = say;
addEventListener("hashchange", open);
listSessions().then(open);
