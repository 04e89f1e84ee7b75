"use strict";
/* Opens a sealed share: checks the link, fetches the payload, decrypts it here and shows it in a sandboxed
   frame. The secret never leaves this page. The payload's layout is specified in atomic_sessions/sharing.py. */
(() => {
const ROUNDS = 600000, MAX_PAGE = 256 * 1024 * 1024, HEAD = 34;
const bytes = (text) => new TextEncoder().encode(text);
const byId = (id) => document.getElementById(id);
const meta = (name) => { const e = document.querySelector(`meta[name="${name}"]`); return e ? e.content : ""; };
const html = window.trustedTypes ? window.trustedTypes.createPolicy("share", { createHTML: (text) => text }) : { createHTML: (text) => text };

class Trouble extends Error { constructor(title, text) { super(title); this.title = title; this.text = text; } }
const DAMAGED = new Trouble("This share is damaged", "What the server sent cannot be opened. Load the page again; if that does not help, ask for a new link.");
const INCOMPLETE = new Trouble("The link is not complete", "The part behind the # holds the key and is missing or cut off. Copy the whole link again.");

const say = (title, text, bad = false) => {
  byId("title").textContent = title;
  byId("text").textContent = text;
  byId("text").classList.toggle("bad", bad);
};

/* ---- the link */
const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const encode = (raw) => btoa(String.fromCharCode(...raw)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
const readLink = () => {
  const id = location.pathname.match(/\/s\/([A-Za-z0-9_-]{22})$/), key = location.hash.match(/^#v1\.([A-Za-z0-9_-]{43})(?:\/(.+))?$/);
  if (!id || !key) throw INCOMPLETE;
  let entry = key[2] || "";
  try { entry = decodeURIComponent(entry); } catch { /* it stands as it is */ }
  return { id: id[1], key: key[1], secret: decode(key[1]), entry };
};

/* ---- keys and payload */
const derive = async (material, purpose, length) => {
  const key = await crypto.subtle.importKey("raw", material, "HKDF", false, ["deriveBits"]);
  return new Uint8Array(await crypto.subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt: new Uint8Array(0), info: bytes(purpose) }, key, length * 8));
};
const slow = async (password, salt) => {
  const key = await crypto.subtle.importKey("raw", bytes(password), "PBKDF2", false, ["deriveBits"]);
  return new Uint8Array(await crypto.subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt, iterations: ROUNDS }, key, 256));
};
const join = (...parts) => { const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0)); let at = 0; for (const p of parts) { all.set(p, at); at += p.length; } return all; };
const fetchPayload = async (id, claim) => {
  let reply;
  try {
    reply = await fetch(claim ? `${id}/claim` : `${id}/payload`, { method: claim ? "POST" : "GET", credentials: "omit", cache: "no-store", redirect: "error" });
  } catch { throw new Trouble("The server does not answer", "Check your connection and load the page again."); }
  if (reply.status === 404) throw new Trouble("Nothing is shared here", "No share has this address. Check that the whole link was copied.");
  if (reply.status === 410) throw new Trouble("This session is no longer shared", "The link has expired, was used up, or was revoked. Ask the person who made it for a new one.");
  if (reply.status === 429) throw new Trouble("Too many requests", "Wait a minute, then load the page again.");
  if (!reply.ok) throw new Trouble("The server cannot give this out now", `It answered ${reply.status}. Try again later.`);
  return new Uint8Array(await reply.arrayBuffer());
};
const check = (payload) => {
  if (payload.length < HEAD + 16 || payload[0] !== 65 || payload[1] !== 83 || payload[4] !== 5) throw DAMAGED;
  if (payload[2] !== 1 || payload[3] !== 1 || payload[5] > 1) throw new Trouble("Made by a newer version", "This server's page is older than the share. Open it with an up to date atomic in a terminal.");
};
const open = async (link, payload, password) => {
  const salt = payload.subarray(6, 22), nonce = payload.subarray(22, HEAD);
  const material = password === null ? link.secret : join(link.secret, await slow(password, salt));
  const key = await crypto.subtle.importKey("raw", await derive(material, "atomic1/share key", 32), "AES-GCM", false, ["decrypt"]);
  const additionalData = join(payload.subarray(0, HEAD), decode(link.id));
  let plain;
  try { plain = new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv: nonce, additionalData }, key, payload.subarray(HEAD))); } catch { return null; }
  const length = plain.length < 4 ? Infinity : new DataView(plain.buffer).getUint32(0);
  if (length > plain.length - 4) throw DAMAGED;
  return gunzip(plain.subarray(4, 4 + length));
};
const gunzip = async (packed) => {
  if (!window.DecompressionStream) throw new Trouble("This browser is too old", "It cannot unpack the session. Use a current browser, or open the link in a terminal.");
  const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")).getReader(), text = new TextDecoder();
  let size = 0, out = "";
  for (;;) {
    let step;
    try { step = await reader.read(); } catch { throw DAMAGED; }
    if (step.done) return out + text.decode();
    size += step.value.length;
    if (size > MAX_PAGE) { reader.cancel(); throw new Trouble("This session is too large for a browser", "Open the link in a terminal instead."); }
    out += text.decode(step.value, { stream: true });
  }
};

/* ---- what is shown */
let frame = null, link = null;
const plainTranscript = (text) => {
  // Parsing reports a style element to the policy even where nothing is applied, so that goes first.
  const bare = text.replace(/<style[\s>][\s\S]*?<\/style>/gi, "");
  const page = new DOMParser().parseFromString(html.createHTML(bare), "text/html");
  for (const e of page.querySelectorAll("script,style,link,base,meta[http-equiv],iframe,object,embed,form")) e.remove();
  const sheet = page.createElement("link");
  sheet.rel = "stylesheet";
  sheet.href = new URL("assets/plain.css", location.href).href;
  page.head.append(sheet);
  return "<!doctype html>" + page.documentElement.outerHTML;
};
const show = (text) => {
  const made = text.slice(0, 4096).match(/<meta name=atomic-renderer content=([0-9a-f]{16})>/), known = meta("atomic-renderer");
  const same = !!made && made[1] === known;
  const title = text.slice(0, 8192).match(/<title>([^<]*)<\/title>/);
  frame = document.createElement("iframe");
  // The plain transcript may be of this origin, for its style sheet, because nothing in it can run.
  frame.setAttribute("sandbox", same ? "allow-scripts" : "allow-same-origin");
  frame.title = "Session transcript";
  frame.referrerPolicy = "no-referrer";
  frame.srcdoc = html.createHTML(same ? text : plainTranscript(text));
  frame.addEventListener("load", () => frame.focus());
  byId("stage").replaceWith(frame);
  if (title) {
    const words = document.createElement("textarea"); // text only: entities of the title, never markup
    words.textContent = title[1].replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"').replace(/&amp;/g, "&");
    document.title = words.textContent;
  }
  if (!same) {
    byId("notice").textContent = "This session was published by another version of Atomic, so it is shown as a plain transcript.";
    byId("notice").hidden = false;
  }
};

/* ---- what the frame may ask for: a link to an entry, or that a link out be opened after a click here */
let wanted = "";
const ask = (text, url, button) => {
  byId("ask-text").textContent = text;
  byId("ask-url").textContent = url;
  byId("ask-yes").hidden = !button;
  byId("ask").hidden = false;
  if (button) byId("ask-yes").focus();
};
const askOpen = (text) => {
  let url;
  try { url = new URL(text); } catch { return; }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return;
  wanted = url.href;
  ask("This link leaves the page:", wanted, true);
};
const giveLink = async (entry) => {
  const url = `${location.origin}${location.pathname}#v1.${link.key}/${encodeURIComponent(entry)}`;
  history.replaceState(null, "", url);
  try { await navigator.clipboard.writeText(url); } catch { ask("Link to this entry:", url, false); }
};
addEventListener("message", (e) => {
  if (!frame || e.source !== frame.contentWindow || !e.data) return;
  const { type, url, entry } = e.data;
  if (type === "ready" && link.entry) frame.contentWindow.postMessage({ type: "entry", id: link.entry }, "*");
  else if (type === "open" && typeof url === "string" && url.length < 4096) askOpen(url);
  else if (type === "link" && typeof entry === "string" && entry.length < 300) giveLink(entry);
});
addEventListener("hashchange", () => {
  let next;
  try { next = readLink(); } catch { return; }
  if (!link || next.key !== link.key) location.reload();
  else if (frame && next.entry) frame.contentWindow.postMessage({ type: "entry", id: next.entry }, "*");
});

/* ---- the way through */
const clicked = (id, event) => new Promise((done) => byId(id).addEventListener(event, (e) => { e.preventDefault(); done(); }, { once: true }));
const askPassword = async (wrong) => {
  say(wrong ? "That is not the password" : "This session has a password", wrong ? "Try again, or ask the person who sent the link." : "Enter the password that came with the link.", wrong);
  byId("password").hidden = false;
  byId("secret").value = "";
  byId("secret").focus();
  await clicked("password", "submit");
  byId("password").hidden = true;
  say("Opening a shared session", "Checking the password.");
  return byId("secret").value;
};
const run = async () => {
  say("Opening a shared session", "One moment.");
  if (!window.isSecureContext || !crypto.subtle) throw new Trouble("This page needs https", "Browsers decrypt only on https addresses. Open the link with https, or in a terminal.");
  link = readLink();
  if (encode((await derive(link.secret, "atomic1/share id", 32)).subarray(0, 16)) !== link.id) throw new Trouble("The key does not fit this link", "One of the two was changed on the way. Copy the whole link again.");
  const claim = meta("atomic-claim") !== "";
  if (claim) {
    const views = Number(meta("atomic-views")) || 0;
    byId("open").textContent = views === 1 ? "Open (this uses its only view)" : views ? `Open (this uses one of ${views} views)` : "Open (this uses one of its views)";
    byId("open").hidden = false;
    say("This link can be opened a limited number of times", "Nothing has been used up yet.");
    await clicked("open", "click");
    byId("open").hidden = true;
    say("Opening a shared session", "One moment.");
  }
  const payload = await fetchPayload(link.id, claim);
  check(payload);
  let text = null;
  if (payload[5] === 1) for (let tries = 0; text === null; tries++) text = await open(link, payload, await askPassword(tries > 0));
  else text = await open(link, payload, null);
  if (text === null) throw DAMAGED;
  show(text);
};
byId("ask-yes").addEventListener("click", () => { byId("ask").hidden = true; window.open(wanted, "_blank", "noopener,noreferrer"); });
byId("ask-no").addEventListener("click", () => { byId("ask").hidden = true; if (frame) frame.focus(); });
run().catch((trouble) => (trouble instanceof Trouble ? say(trouble.title, trouble.text, true) : say("Something went wrong", "Load the page again, or open the link in a terminal.", true)));
})();
