"use strict";
/* Makes the transcript easier to walk: a tree with search and filters, toggles, links to entries.
   Builds elements from text only (no markup from strings) and asks the network for nothing. */
(() => {
const ROW = 26;
const root = document.documentElement, body = document.body, main = document.getElementById("transcript");
const framed = window.parent !== window;
const make = (name, props, ...kids) => { const e = Object.assign(document.createElement(name), props); e.append(...kids); return e; };
const oneLine = (text, limit) => text.slice(0, limit * 4).replace(/\s+/g, " ").trim().slice(0, limit);
const post = (message) => { if (framed) window.parent.postMessage(message, "*"); };

/* ---- the tree, read from the page */
const segments = [{ el: main.querySelector(".path"), from: -1, depth: 0, first: 0 }];
const items = [], byAnchor = new Map();
const KINDS = { user: "user", assistant: "assistant", tool: "tool", result: "tool result", bash: "shell", custom: "extension", system: "system", summary: "summary" };

// No selectors of two parts under an entry: the browser looks through the whole page for each (6 s for 20,000).
const inside = (el, name) => Array.prototype.find.call(el.children, (child) => child.classList.contains(name));
const spaced = (el) => Array.from(el.children, (child) => child.textContent.slice(0, 400)).join(" ");
const tellTool = (el) => {
  const head = inside(el, "th"), command = inside(el, "cmd");
  if (!head) return oneLine("$ " + (command || el).textContent.slice(0, 200), 90);
  const more = command || (!head.querySelector("code,span") && (inside(el, "arg") || el.querySelector("pre")));
  return oneLine(head.textContent.slice(0, 200) + (more ? " " + more.textContent.slice(0, 200) : ""), 90);
};
const add = (item) => { if (item.el.id && !byAnchor.has(item.el.id)) byAnchor.set(item.el.id, items.length); items.push(item); };
const readArticle = (el, seg) => {
  const kind = el.classList[0], said = el.querySelector(".md"), error = inside(el, "err");
  const head = el.firstElementChild, mark = head && head.tagName === "HEADER" ? head.querySelector("mark") : null, label = mark ? mark.textContent : "";
  let text = said ? oneLine(spaced(said), 200) : "";
  if (!text && error) text = oneLine(error.textContent, 80);
  const tools = el.querySelectorAll(".tool");
  if (!text && (kind === "bash" || kind === "result") && tools[0]) text = tellTool(tools[0]);
  const silent = kind === "assistant" && !text;
  add({ el, seg, kind, who: KINDS[kind] || kind, text: text || "(no text)", label, silent, bad: !!error });
  if (kind === "bash" || kind === "result") return;
  for (const t of tools) add({ el: t, seg, kind: "tool", who: "", text: tellTool(t), label: "", bad: t.classList.contains("bad") });
};
const read = (seg) => {
  for (const el of [...segments[seg].el.children]) {
    if (el.tagName === "ARTICLE") readArticle(el, seg);
    else if (el.classList.contains("sum") || el.classList.contains("ev")) {
      const head = el.querySelector("summary") || el, mark = el.querySelector("mark"), said = el.querySelector(".md");
      const kind = el.classList.contains("ev") && head.firstChild.nodeType === 3 ? "event" : "summary";
      add({ el, seg, kind, who: kind === "summary" ? oneLine(head.firstChild.textContent, 60).toLowerCase() : "", text: said ? oneLine(spaced(said), 200) : kind === "event" ? oneLine(head.textContent, 120) : "", label: mark ? mark.textContent : "" });
    } else if (el.classList.contains("quiet")) {
      for (const li of el.querySelectorAll("li")) { const mark = li.querySelector("mark"); add({ el: li, seg, kind: "event", who: "", text: oneLine(li.textContent, 160), label: mark ? mark.textContent : "" }); }
    }
  }
};
read(0);
for (const el of main.querySelectorAll(".branch")) {
  const from = el.dataset.from, seg = segments.length;
  segments.push({ el, from: from && byAnchor.has(from) ? byAnchor.get(from) : -1, depth: 0, first: items.length });
  if (segments[seg].from >= 0) segments[seg].depth = segments[items[segments[seg].from].seg].depth + 1;
  read(seg);
}

/* ---- which path is shown: the segments from the root to the chosen entry, each up to where the next one leaves */
let current = -1;
const blockOf = (el) => { while (el.parentElement && !el.parentElement.matches(".path,.branch")) el = el.parentElement; return el; };
const showPath = (seg) => {
  const cut = new Map();
  for (let at = seg, end = null; at >= 0;) {
    cut.set(at, end);
    const from = segments[at].from;
    if (from < 0) break;
    end = blockOf(items[from].el); at = items[from].seg;
  }
  segments.forEach((s, i) => {
    const on = cut.has(i);
    s.el.classList.toggle("gone", !on);
    if (i) { s.el.classList.toggle("on", on); s.el.open = on; }
    if (!on) return;
    let past = false;
    for (const child of [...s.el.children]) {
      if (child.tagName === "SUMMARY") continue;
      child.classList.toggle("gone", past && child.className.split(" ")[0] !== "fork");
      if (child === cut.get(i)) past = true;
      else if (past && child.classList.contains("fork")) child.classList.add("gone");
    }
  });
  shownSegments = cut;
  paint();
};
let shownSegments = new Map([[0, null]]);
const onPath = (item) => {
  if (!shownSegments.has(item.seg)) return false;
  const end = shownSegments.get(item.seg);
  return !end || end === blockOf(item.el) || !!(end.compareDocumentPosition(item.el) & Node.DOCUMENT_POSITION_PRECEDING);
};
// Entries out of sight have no size yet, so what is drawn on the way moves the target: again until it stands still.
let brought = 0;
const bring = (el, block) => {
  const turn = ++brought;
  let tries = 30, still = 0, last = NaN;
  const step = () => {
    if (turn !== brought) return;
    el.scrollIntoView({ block });
    const top = el.getBoundingClientRect().top;
    still = Math.abs(top - last) < 2 ? still + 1 : 0;
    last = top;
    if (still < 3 && --tries) requestAnimationFrame(step);
  };
  step();
};
for (const event of ["wheel", "touchmove", "pointerdown"]) addEventListener(event, () => { brought++; }, { passive: true, capture: true });
const go = (index, flash = true) => {
  const item = items[index];
  if (!item) return;
  current = index;
  if (!onPath(item)) showPath(item.seg);
  for (let el = item.el; el && el !== main; el = el.parentElement) if (el.tagName === "DETAILS") el.open = true;
  bring(item.el, flash ? "center" : "start");
  for (const el of main.querySelectorAll(".here")) el.classList.remove("here");
  if (flash) { void item.el.offsetWidth; item.el.classList.add("here"); }
  body.classList.remove("drawer");
  paint();
};
main.addEventListener("animationend", (e) => e.target.classList.remove("here"));
const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
const goAnchor = (id) => {
  const index = byAnchor.get(id) ?? byAnchor.get("e-" + id);
  if (index !== undefined) go(index);
  return index !== undefined;
};

/* ---- filters and search */
const FILTERS = { Default: (i) => i.kind !== "event" && !i.silent, "No tools": (i) => i.kind !== "event" && i.kind !== "tool" && i.kind !== "result" && !i.silent, User: (i) => i.kind === "user", Labeled: (i) => i.label, All: () => true };
let filter = "Default", words = [], visible = [];
const fullText = (item) => item.full ??= (item.who + " " + item.label + " " + item.el.textContent).toLowerCase();
const sift = () => {
  visible = [];
  items.forEach((item, i) => { if (FILTERS[filter](item) && words.every((w) => fullText(item).includes(w))) visible.push(i); });
  rows.clear();
  inner.replaceChildren();
  total.textContent = `${visible.length} of ${items.length} entries`;
  tree.scrollTop = 0;
  paint();
  lightUp();
};
const lightUp = () => {
  if (!window.Highlight || !CSS.highlights) return;
  CSS.highlights.delete("find");
  if (!words.length) return;
  const ranges = [], walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node && ranges.length < 3000; node = walk.nextNode()) {
    const text = node.data.toLowerCase();
    if (text.length !== node.data.length) continue;
    for (const word of words) for (let at = text.indexOf(word); at >= 0 && ranges.length < 3000; at = text.indexOf(word, at + word.length)) {
      const range = new Range(); range.setStart(node, at); range.setEnd(node, at + word.length); ranges.push(range);
    }
  }
  CSS.highlights.set("find", new Highlight(...ranges));
};

/* ---- the sidebar: only the rows in sight exist */
const tree = make("div", { className: "tree", tabIndex: 0, role: "tree", ariaLabel: "Entries" });
const inner = make("div");
const total = make("div", { className: "sum-line" });
const search = make("input", { type: "search", placeholder: "Search", ariaLabel: "Search this session", autocomplete: "off", spellcheck: false });
const filters = make("div", { className: "filters", role: "group", ariaLabel: "Filter entries" });
for (const name of Object.keys(FILTERS)) filters.append(make("button", { type: "button", textContent: name, ariaPressed: String(name === filter), onclick() { filter = name; for (const b of filters.children) b.ariaPressed = String(b === this); sift(); } }));
tree.append(inner);
const side = make("nav", { className: "side", ariaLabel: "Contents" }, make("div", { className: "tools" }, search, filters), tree, total);
// Rows stay the same elements while they are in sight: a click is lost when its row goes between press and release.
const rows = new Map();
function makeRow(at, index) {
  const item = items[index], depth = segments[item.seg].depth;
  const row = make("div", { role: "treeitem", id: "r" + index, title: item.text, ariaLevel: String(depth + 1), className: `k-${item.bad ? "bad" : item.kind}` });
  row.setAttribute("aria-setsize", visible.length); row.setAttribute("aria-posinset", at + 1);
  if (item.label) row.append(make("mark", { textContent: item.label }), " ");
  if (item.who) row.append(make("i", { textContent: item.who + ": " }));
  row.append(item.kind === "tool" ? `[${item.text}]` : item.text);
  row.style.top = at * ROW + "px";
  row.style.paddingLeft = 12 + Math.min(depth, 8) * 14 + (item.kind === "tool" ? 10 : 0) + "px";
  row.onclick = () => go(index);
  rows.set(at, row);
  inner.append(row);
  return row;
}
let asked = 0;
function paint() {
  inner.style.height = visible.length * ROW + "px";
  const first = Math.max(0, Math.floor(tree.scrollTop / ROW) - 8), last = Math.min(visible.length, first + Math.ceil((tree.clientHeight || 800) / ROW) + 16);
  for (const [at, row] of rows) if (at < first || at >= last) { row.remove(); rows.delete(at); }
  for (let at = first; at < last; at++) {
    const index = visible[at], row = rows.get(at) || makeRow(at, index);
    row.classList.toggle("off", !onPath(items[index]));
    row.classList.toggle("cur", index === current);
    row.ariaSelected = String(index === current);
  }
  if (current >= 0) tree.setAttribute("aria-activedescendant", "r" + current);
}
tree.addEventListener("scroll", () => { if (!asked) asked = requestAnimationFrame(() => { asked = 0; paint(); }); }, { passive: true });
tree.addEventListener("keydown", (e) => {
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 }[e.key];
  if (!step || !visible.length) return;
  e.preventDefault();
  const at = visible.indexOf(current);
  const next = at < 0 ? (step > 0 ? 0 : visible.length - 1) : Math.max(0, Math.min(visible.length - 1, at + step));
  go(visible[next]); reveal(next); tree.focus({ preventScroll: true });
});
const reveal = (at) => { const top = at * ROW; if (top < tree.scrollTop || top > tree.scrollTop + tree.clientHeight - 2 * ROW) tree.scrollTop = top - tree.clientHeight / 2; };
let typing = 0;
search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => { words = search.value.toLowerCase().split(/\s+/).filter(Boolean); sift(); }, items.length > 3000 ? 200 : 60); });

/* ---- the bar: toggles and what was copied */
const say = make("span", { className: "say", role: "status" });
const tell = (text) => { say.textContent = text; clearTimeout(tell.timer); tell.timer = setTimeout(() => { say.textContent = ""; }, 2000); };
const thinking = make("button", { type: "button", ariaPressed: "true", onclick: () => toggleThinking() }, "Thinking", make("kbd", { textContent: "T" }));
const outputs = make("button", { type: "button", ariaPressed: "false", onclick: () => toggleOutputs() }, "Full output", make("kbd", { textContent: "O" }));
function toggleThinking() { thinking.ariaPressed = String(!body.classList.toggle("no-think")); }
function toggleOutputs() {
  const open = outputs.ariaPressed !== "true";
  outputs.ariaPressed = String(open);
  for (const more of main.querySelectorAll("details.more")) more.open = open;
}
const drawer = (open) => { body.classList.toggle("drawer", open); if (open) { paint(); search.focus(); } };
const menu = make("button", { type: "button", className: "menu", textContent: "Contents", onclick: () => drawer(true) });
const bar = make("div", { className: "bar", role: "toolbar", ariaLabel: "View" }, menu);
if (main.querySelector(".think")) bar.append(thinking);
if (main.querySelector("details.more")) bar.append(outputs);
bar.append(say);

/* ---- links: to entries by copying, out of the page only after the person said so */
const copy = (entry) => {
  if (framed) { post({ type: "link", entry }); tell("Link copied"); return; }
  const url = location.href.split("#")[0] + "#e-" + encodeURIComponent(entry);
  history.replaceState(null, "", url);
  if (navigator.clipboard) navigator.clipboard.writeText(url).then(() => tell("Link copied"), () => tell("Link is in the address bar"));
  else tell("Link is in the address bar");
};
document.addEventListener("click", (e) => {
  const a = e.target instanceof Element ? e.target.closest("a") : null;
  if (!a) return;
  const href = a.getAttribute("href") || "";
  if (href[0] !== "#") { if (framed) { e.preventDefault(); post({ type: "open", url: href }); } return; }
  e.preventDefault();
  if (/^#b\d+$/.test(href)) {
    const seg = segments.findIndex((s) => s.el.id === href.slice(1));
    if (seg > 0) { showPath(seg); go(segments[seg].first); }
  } else if (a.className === "at") {
    copy(decoded(href.slice(3)));
  } else goAnchor(decoded(href.slice(1)));
});
document.addEventListener("keydown", (e) => {
  const inField = e.target instanceof HTMLInputElement;
  if (e.key === "Escape") {
    if (search.value) { search.value = ""; words = []; sift(); }
    body.classList.remove("drawer");
    if (segments[0].el) { current = -1; showPath(0); }
    return;
  }
  if (inField || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "t" || e.key === "T") toggleThinking();
  else if (e.key === "o" || e.key === "O") toggleOutputs();
  else if (e.key === "/") { e.preventDefault(); drawer(true); search.focus(); }
});
window.addEventListener("hashchange", () => goAnchor(decoded(location.hash.slice(1))));
window.addEventListener("message", (e) => { if (framed && e.source === window.parent && e.data && e.data.type === "entry") goAnchor(String(e.data.id)); });

root.classList.add("js");
main.before(bar);
body.prepend(side, make("button", { type: "button", className: "shade", ariaLabel: "Close contents", onclick: () => drawer(false) }));
showPath(0);
sift();
window.addEventListener("resize", paint);
if (!framed && location.hash.length > 1) goAnchor(decoded(location.hash.slice(1)));
post({ type: "ready" });
})();
