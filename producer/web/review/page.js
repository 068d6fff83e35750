// The review page. Whatever a customer wrote reaches the page as text (textContent, value) and never as markup.

const POLL_MS = 5000;
const KEEP_CLAIM_MS = 60_000; // well under the shortest claim that makes sense
const ACCEPT_REASONS = [["honest", "honest ticket"], ["creative", "creative writing"], ["machine_text", "log, code or data"], ["other", "other"]];
const REJECT_REASONS = [["spam", "advertising"], ["scam", "fraud or phishing"], ["flood", "flood or nonsense"], ["abuse", "abuse"], ["other", "other"]];
const EMPTY = {
  open: "Nothing waits. Well done.",
  rejected: "Nothing was rejected that has not been looked at.",
  second: "No second opinion is wanted.",
};

const $ = (id) => document.getElementById(id);
const page = { lane: "open", items: [], chosen: "", selected: new Set(), sheet: null, sla: 1, skew: 0, more: false, operator: false, step: "", reasons: [] };

// ---- The server -------------------------------------------------------------------------------------------------

async function ask(path, options = {}) {
  const headers = { "X-Ticketmill-Review": "1", ...(options.body ? { "Content-Type": "application/json" } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers, credentials: "same-origin" });
  } catch {
    throw new Error("the server cannot be reached");
  }
  const content = response.status === 204 ? null : await response.json().catch(() => null);
  if (response.ok) return content;
  if (response.status === 401 && path !== "/v1/session") showSignIn("");
  throw Object.assign(new Error(content?.error ? `${content.error.field}: ${content.error.message}` : `the server says ${response.status}`), { status: response.status });
}

function order(step, tickets, more = {}) {
  return ask("/v1/reviews", { method: "POST", body: JSON.stringify({ step, tickets, lane: page.lane, ...more }) });
}

function query(after = "") {
  const wanted = new URLSearchParams({ lane: page.lane });
  for (const [name, value] of new FormData($("filters"))) if (value && value !== "0") wanted.set(name, value);
  if (after) wanted.set("after", after);
  return `/v1/reviews?${wanted}`;
}

// ---- Signing in -------------------------------------------------------------------------------------------------

function showSignIn(fault) {
  $("desk").hidden = true;
  $("sign-in").hidden = false;
  $("sign-in-fault").textContent = fault;
  $("key").focus();
}

async function showDesk(holder) {
  $("sign-in").hidden = true;
  $("desk").hidden = false;
  page.operator = holder.role === "operator";
  $("who").textContent = page.operator ? `${holder.label} · operator` : `${holder.label} · ${holder.tenant}`;
  await openLane("open");
}

$("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const key = $("key").value;
  $("key").value = "";
  try {
    await showDesk(await ask("/v1/session", { method: "POST", body: JSON.stringify({ key }) }));
  } catch (error) {
    showSignIn(error.message);
  }
});

$("sign-out").addEventListener("click", attempt(async () => {
  await leave();
  await ask("/v1/session", { method: "DELETE" });
  showSignIn("");
}));

// ---- The list ---------------------------------------------------------------------------------------------------

async function openLane(lane) {
  await leave();
  page.lane = lane;
  page.selected.clear();
  for (const button of $("lanes").children) button.setAttribute("aria-current", String(button.dataset.lane === lane));
  $("list").setAttribute("aria-label", lane === "rejected" ? "Rejected tickets, in an order of chance" : "Tickets, the oldest first");
  await refresh();
}

async function refresh() {
  const found = await ask(query());
  take(found, found.items);
  // What "Show more" has brought stays until the list is left; what others decided meanwhile is refused when tried.
  draw();
}

function take(found, items) {
  page.items = items;
  page.sla = found.sla_s;
  page.skew = Date.parse(found.now) - Date.now();
  page.more = found.items.length === 100;
  for (const id of page.selected) if (!items.some((item) => item.id === id)) page.selected.delete(id);
  for (const button of $("lanes").children) {
    const count = found.counts[button.dataset.lane];
    button.querySelector("b").textContent = count < 1000 ? String(count) : "1000+";
  }
  for (const [list, field] of [["jobs", "job"], ["sources", "source"], ["languages", "language"], ["reasons", "code"]]) {
    const values = [...new Set(items.map((item) => item[field]).filter(Boolean))].sort();
    $(list).replaceChildren(...values.map((value) => made("option", { value })));
  }
}

function draw() {
  const focused = document.activeElement?.closest?.("#list li")?.dataset.id;
  const scrolled = $("left").scrollTop;
  $("list").replaceChildren(...page.items.map(row));
  $("left").scrollTop = scrolled;
  if (focused) rowOf(focused)?.querySelector("button").focus({ preventScroll: true });
  $("empty").hidden = page.items.length > 0;
  $("empty").textContent = filtered() ? "No ticket here is like that." : EMPTY[page.lane];
  $("more").hidden = !page.more;
  $("filter-note").textContent = filtered() ? "(on)" : "";
  drawSelection();
}

function row(item) {
  const tick = made("input", { type: "checkbox", checked: page.selected.has(item.id), ariaLabel: `Select ${item.subject || item.excerpt}` });
  tick.addEventListener("change", () => select(item.id, tick.checked));
  const facts = [item.code || item.why, item.priority, item.job, item.language, item.source, page.operator && item.tenant].filter(Boolean).join(" · ");
  const line = made("span", { className: "facts", textContent: facts });
  if (item.claimed_by && !item.mine) line.prepend(made("span", { className: "held", textContent: `${item.claimed_by} has it` }), " ");
  const open = made("button", { type: "button" }, [
    made("span", { className: "title", dir: "auto", textContent: item.subject || oneLine(item.excerpt) }),
    age(item),
    made("span", { className: "excerpt", dir: "auto", textContent: item.subject ? oneLine(item.excerpt) : "" }),
    line,
  ]);
  open.addEventListener("click", attempt(() => show(item.id)));
  const element = made("li", { className: item.id === page.chosen ? "chosen" : "" }, [made("label", {}, [tick]), open]);
  element.dataset.id = item.id;
  if (item.id === page.chosen) open.setAttribute("aria-current", "true");
  return element;
}

function age(item) {
  const seconds = Math.max(0, (Date.now() + page.skew - Date.parse(item.received_at)) / 1000);
  const level = seconds > page.sla ? "late" : seconds > page.sla / 2 ? "due" : "fresh";
  const words = { late: "over its time", due: "due soon", fresh: "in time" };
  return made("span", { className: `age ${level}`, textContent: span(seconds), title: words[level] });
}

function select(id, on) {
  if (on) page.selected.add(id);
  else page.selected.delete(id);
  drawSelection();
}

function drawSelection() {
  const count = page.selected.size;
  $("selected").textContent = count ? `${count} selected` : "none selected";
  $("select-all").checked = count > 0 && count === page.items.length;
  $("select-all").indeterminate = count > 0 && count < page.items.length;
  $("bulk-accept").disabled = $("bulk-reject").disabled = count === 0;
  for (const element of $("list").children) element.querySelector("input").checked = page.selected.has(element.dataset.id);
  $("accept").firstChild.data = count ? `Accept ${count} ` : "Accept ";
  $("reject").firstChild.data = count ? `Reject ${count}… ` : "Reject… ";
  const nothing = !page.chosen && !count;
  for (const id of ["accept", "reject"]) $(id).disabled = nothing;
  for (const id of ["edit-button", "skip"]) $(id).disabled = !page.chosen;
  if (page.lane === "second") $("edit-button").disabled = true;
}

// ---- One ticket -------------------------------------------------------------------------------------------------

async function show(id) {
  if (page.chosen && page.chosen !== id) await leave();
  const claimed = await order("claim", [id]);
  if (claimed.refused.length) {
    say(claimed.refused[0].why, true);
    await refresh();
    return;
  }
  page.sheet = await ask(`/v1/reviews/${encodeURIComponent(id)}?lane=${page.lane}`);
  page.chosen = id;
  $("desk").classList.add("reading");
  draw();
  drawSheet();
  rowOf(id)?.scrollIntoView({ block: "nearest" });
}

async function leave() {
  const left = page.chosen;
  close();
  if (left) await order("release", [left]).catch(() => {}); // the claim ends by itself
}

function close() {
  page.chosen = "";
  page.sheet = null;
  $("desk").classList.remove("reading");
  $("ticket").hidden = true;
  $("nothing").hidden = false;
  drawSelection();
}

function drawSheet() {
  const { item, body, metadata, scores, history, decisions } = page.sheet;
  $("nothing").hidden = true;
  $("ticket").hidden = false;
  endEdit();
  $("subject").textContent = item.subject;
  $("text").textContent = body;
  const facts = { customer: item.customer, source: item.source, job: item.job, priority: item.priority, language: item.language, tenant: page.operator && item.tenant, id: item.external_id };
  $("facts").replaceChildren(age(item), ...Object.entries(facts).filter(([, value]) => value).map(([name, value]) => made("span", { textContent: `${name} ${value}` })));
  $("why").textContent = `The gate: ${item.why || "gave no reason"}${item.code ? ` (${item.code})` : ""}`;
  pairs("scores", Object.entries(scores).map(([name, value]) => [name, Number(value).toPrecision(3)]));
  pairs("meta", Object.entries(metadata).map(([name, value]) => [name, String(value)]));
  const lines = [
    ...history.map((change) => ({ at: change.at, text: `${change.before ? `${change.before} → ` : ""}${change.after}${change.reason ? `: ${change.reason}` : ""}` })),
    ...decisions.filter((said) => said.note || said.second || said.step === "skip").map((said) => ({
      at: said.at,
      undone: said.undone,
      text: `${said.reviewer}: ${said.second ? "second opinion, " : ""}${said.step}${said.reason ? ` (${said.reason})` : ""}${said.note ? `: ${said.note}` : ""}`,
    })),
  ].sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
  $("history").replaceChildren(...lines.map((line) => made("li", {}, [
    made("time", { dateTime: line.at, textContent: new Date(line.at).toLocaleString([], { dateStyle: "short", timeStyle: "short" }) }),
    made("span", { className: line.undone ? "undone" : "", dir: "auto", textContent: line.text }),
  ])));
  if (page.lane === "second") $("history").replaceChildren(made("li", { textContent: "Hidden, so that your opinion is your own." }));
  $("sheet").scrollTop = 0;
}

function pairs(id, entries) {
  $(`${id}-box`).hidden = entries.length === 0;
  $(id).replaceChildren(...entries.flatMap(([name, value]) => [made("dt", { textContent: name }), made("dd", { textContent: value })]));
}

// ---- Deciding ---------------------------------------------------------------------------------------------------

async function decide(step, reason = "", more = {}) {
  const many = page.selected.size > 0;
  const ids = many ? [...page.selected] : page.chosen ? [page.chosen] : [];
  if (!ids.length) return;
  const next = after(ids);
  const result = await order(step, ids, { reason, ...more });
  const verb = { accept: "accepted", reject: "rejected", skip: "skipped" }[step];
  say([result.done.length ? `${result.done.length > 1 ? `${result.done.length} tickets ` : ""}${verb}; u takes it back` : "", ...new Set(result.refused.map((each) => each.why))].filter(Boolean).join("; "), result.refused.length > 0);
  page.selected.clear();
  if (ids.includes(page.chosen)) close();
  await refresh();
  if (!many && next && page.items.some((item) => item.id === next)) await show(next);
}

function after(ids) {
  const at = page.items.findIndex((item) => item.id === page.chosen);
  const free = (item) => !ids.includes(item.id) && (!item.claimed_by || item.mine);
  return (page.items.slice(at + 1).find(free) ?? page.items.find(free))?.id ?? "";
}

async function takeBack() {
  const result = await order("undo", []);
  if (result.refused.length) say(result.refused[0].why, true);
  else say(result.done.length ? "taken back" : "there is nothing to take back");
  await refresh();
  const back = result.done[0];
  if (result.done.length === 1 && page.items.some((item) => item.id === back)) await show(back);
}

function because(step) {
  if (!page.chosen && !page.selected.size) return;
  const reasons = step === "accept" ? ACCEPT_REASONS : REJECT_REASONS;
  page.step = step;
  page.reasons = reasons.map(([code]) => code);
  $("why-title").textContent = `${step === "accept" ? "Accept" : "Reject"} ${page.selected.size > 1 ? `${page.selected.size} tickets ` : ""}because it is`;
  $("why-list").replaceChildren(...reasons.map(([code, words], number) => {
    const button = made("button", { type: "button" }, [made("kbd", { textContent: String(number + 1) }), made("span", { textContent: words })]);
    button.addEventListener("click", attempt(() => choose(code)));
    return button;
  }));
  $("why-dialog").showModal();
  $("why-list").firstElementChild.focus();
}

function choose(reason) {
  $("why-dialog").close();
  return decide(page.step, reason);
}

function beginEdit() {
  if (!page.sheet || page.lane === "second") return;
  $("edit-subject").value = page.sheet.item.subject;
  $("edit-body").value = page.sheet.body;
  $("edit").hidden = false;
  $("text").hidden = true;
  $("edit-body").focus();
}

function endEdit() {
  $("edit").hidden = true;
  $("text").hidden = false;
}

async function step(by) {
  const at = page.items.findIndex((item) => item.id === page.chosen);
  const next = page.items[at < 0 ? 0 : at + by];
  if (!next) return;
  await show(next.id);
  if (page.chosen === next.id) say(`ticket ${page.items.indexOf(next) + 1 || at + by + 1} of ${page.items.length}: ${next.subject || oneLine(next.excerpt).slice(0, 60)}`);
}

// ---- Small parts ------------------------------------------------------------------------------------------------

function made(tag, properties = {}, children = []) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function rowOf(id) {
  return [...$("list").children].find((element) => element.dataset.id === id);
}

function oneLine(text) {
  return text.replace(/\s+/g, " ").trim();
}

function span(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

function filtered() {
  return [...new FormData($("filters"))].some(([, value]) => value && value !== "0");
}

function say(words, fault = false) {
  $("said").textContent = words;
  $("said").classList.toggle("fault", fault);
}

// One thing at a time: a key that is pressed while the last one is being carried out waits for it.
let doing = Promise.resolve();
function attempt(work) {
  return (...given) => {
    doing = doing.then(() => work(...given)).catch((error) => say(error.message, true));
    return doing;
  };
}

// ---- Buttons and keys -------------------------------------------------------------------------------------------

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  a: () => decide("accept"),
  A: () => because("accept"),
  r: () => because("reject"),
  e: beginEdit,
  s: () => { page.selected.clear(); return decide("skip"); },
  u: takeBack,
  n: () => page.chosen && $("note").focus(),
  x: () => page.chosen && select(page.chosen, !page.selected.has(page.chosen)),
  f: () => { $("filter-box").open = true; $("filters").elements.job.focus(); },
  1: () => openLane("open"),
  2: () => openLane("rejected"),
  3: () => openLane("second"),
  "?": () => $("help").showModal(),
};

// What a key means is decided when its turn comes: of "a r 1", typed at once, the 1 is a reason and no list.
const press = attempt((key) => {
  if (!$("why-dialog").open) return KEYS[key]?.();
  const reason = page.reasons[Number(key) - 1];
  return reason && choose(reason);
});

document.addEventListener("keydown", (event) => {
  if ($("desk").hidden || $("help").open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    document.activeElement?.blur?.(); // a dialog closes by itself
    endEdit();
  } else if (!event.target.closest?.("input:not([type=checkbox]), textarea, select") && /^[1-9]$|^[jkaAresunxf?]$/.test(event.key)) {
    event.preventDefault();
    press(event.key);
  }
});

$("accept").addEventListener("click", attempt(KEYS.a));
$("bulk-accept").addEventListener("click", attempt(KEYS.a));
$("reject").addEventListener("click", attempt(KEYS.r));
$("bulk-reject").addEventListener("click", attempt(KEYS.r));
$("edit-button").addEventListener("click", attempt(KEYS.e));
$("skip").addEventListener("click", attempt(KEYS.s));
$("undo").addEventListener("click", attempt(KEYS.u));
$("help-button").addEventListener("click", attempt(KEYS["?"]));
$("back").addEventListener("click", attempt(async () => { await leave(); await refresh(); }));
$("edit-cancel").addEventListener("click", endEdit);
$("edit").addEventListener("submit", (event) => event.preventDefault());
$("edit").addEventListener("submit", attempt(() => {
  page.selected.clear();
  return decide("accept", "", { edit: { subject: $("edit-subject").value, body: $("edit-body").value } });
}));
$("note-form").addEventListener("submit", (event) => event.preventDefault());
$("note-form").addEventListener("submit", attempt(async () => {
  const note = $("note").value;
  if (!note.trim() || !page.chosen) return;
  await order("note", [page.chosen], { note });
  $("note").value = "";
  $("note").blur();
  say("noted");
  page.sheet = await ask(`/v1/reviews/${encodeURIComponent(page.chosen)}?lane=${page.lane}`);
  drawSheet();
}));
$("filters").addEventListener("submit", (event) => { event.preventDefault(); document.activeElement?.blur?.(); });
$("filters").addEventListener("submit", attempt(refresh));
$("filters").addEventListener("reset", () => setTimeout(attempt(refresh)));
$("select-all").addEventListener("change", () => {
  page.selected = new Set($("select-all").checked ? page.items.map((item) => item.id) : []);
  drawSelection();
});
for (const button of $("lanes").children) button.addEventListener("click", attempt(() => openLane(button.dataset.lane)));
$("more").addEventListener("click", attempt(async () => {
  const found = await ask(query(page.items.at(-1).id));
  take(found, [...page.items, ...found.items]);
  draw();
}));

setInterval(() => {
  if (!document.hidden && !$("desk").hidden && page.items.length <= 100) attempt(refresh)();
}, POLL_MS);
setInterval(() => { if (page.chosen && !document.hidden) attempt(() => order("claim", [page.chosen]))(); }, KEEP_CLAIM_MS);

ask("/v1/session").then(showDesk, () => showSignIn(""));
