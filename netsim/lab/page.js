// What the lab's pages have beyond marimo's own: names for every thumb, a link that holds the settings, and wide
// formulas that a keyboard can scroll. Nothing here is done while a slider redraws the pictures: it waits for a pause.
(() => {
  "use strict";
  const PAUSE_MS = 250;
  const asked = new URLSearchParams(location.search);
  const soon = (work, timer) => () => { clearTimeout(timer); timer = setTimeout(work, PAUSE_MS); };
  const set = (element, name, value) => { if (element.getAttribute(name) !== value) element.setAttribute(name, value); };

  // ---- names: a slider's shadow root holds its thumbs, whose numbers count steps ----

  const steps = (slider) => JSON.parse(slider.dataset.steps || "null");
  function nameThumbs(slider) {
    const label = slider.shadowRoot.querySelector("label");
    const thumbs = [...slider.shadowRoot.querySelectorAll("[role=slider]")], values = steps(slider);
    thumbs.forEach((thumb, at) => {
      set(thumb, "aria-label", (label ? label.textContent : "") + (thumbs.length > 1 ? [", lower end", ", upper end"][at] : ""));
      if (values) set(thumb, "aria-valuetext", String(values[Number(thumb.getAttribute("aria-valuenow"))]));
    });
  }

  // ---- a projector: the value beside a slider is as large as its label; names are text, not marimo's markup ----

  const VALUES = ".text-xs { font-size: 20px; font-weight: 600; color: inherit; min-width: 3.2em; }";
  const plain = (text) => new DOMParser().parseFromString(text, "text/html").body.textContent.trim();
  function enlarge(root) {
    if (root.querySelector("style[data-netsim]")) return;
    const style = document.createElement("style");
    style.dataset.netsim = "";
    style.textContent = VALUES;
    root.append(style);
  }
  function nameInText(root) {
    for (const element of root.querySelectorAll("[aria-label*='<'], [title*='<']")) {
      for (const name of ["aria-label", "title"]) {
        if (element.hasAttribute(name)) set(element, name, plain(element.getAttribute(name)));
      }
    }
  }

  // ---- the link: each control's place knows its key and value ----

  const places = () => [...document.querySelectorAll("[data-key]")];
  const settings = () => places().map(({ dataset: { key, value } }) => `${key}=${encodeURIComponent(value)}`).join("&");
  const page = () => (/lesson-\d+\/$/.exec(location.pathname) || [""])[0];
  function showLink() {
    const known = places().map((place) => place.dataset.key);
    const strange = [...asked.keys()].filter((key) => !known.includes(key)).map((key) => `“${key.slice(0, 40)}”`);
    const told = strange.length ? `The link also says ${[...new Set(strange)].slice(0, 5).join(", ")}, which this page has no control for.` : "";
    document.querySelectorAll(".unknown").forEach((line, at) => { const said = at ? "" : told; if (line.textContent !== said) line.textContent = said; });
    document.querySelectorAll("details.link").forEach((link, at) => {
      const line = `netsim lab --link "${page()}?${settings()}"`, code = link.querySelector("code");
      link.hidden = at > 0;              // one for all controls of the page
      if (code.textContent !== line) code.textContent = line;
    });
  }
  // replaced, not pushed as marimo does it, so that "back" leads to the page before and not through every step
  const write = soon(() => { history.replaceState(history.state, "", `?${settings()}`); showLink(); });
  document.addEventListener("marimo-value-input", ({ detail: { element, value } }) => {
    const place = element.closest("[data-key]"), values = steps(element);
    if (!place || value === null) return;
    place.dataset.value = [value].flat().map((each) => (values ? values[each] : each)).join("-");
    write();
  });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("details.link button");
    if (!button) return;
    await navigator.clipboard.writeText(button.parentNode.querySelector("code").textContent);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  });

  // ---- all of it again whenever the page or a shadow root has changed ----

  const watched = new WeakSet();
  function hosts(root) {
    const found = [...root.querySelectorAll("*")].filter((element) => element.shadowRoot);
    return found.concat(...found.map((element) => hosts(element.shadowRoot)));
  }
  function tidy() {
    for (const host of hosts(document)) {
      if (!watched.has(host)) {
        watched.add(host);
        const slider = /slider$/.test(host.localName);
        const again = slider ? () => nameThumbs(host) : tidySoon;
        new MutationObserver(again).observe(host.shadowRoot, { subtree: true, childList: true, ...(slider ? { attributeFilter: ["aria-valuenow", "aria-label"] } : {}) });
        if (slider) { nameThumbs(host); enlarge(host.shadowRoot); }
      }
      nameInText(host.shadowRoot);
      for (const formula of host.shadowRoot.querySelectorAll(".katex-display")) {
        const wide = formula.scrollWidth > formula.clientWidth + 1;
        if (wide) for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", "a wide formula"]]) set(formula, name, value);
        else formula.removeAttribute("tabindex");
      }
    }
    nameInText(document);
    const shown = document.getElementById("App");
    if (shown) set(shown, "role", "main");
    for (const menu of document.querySelectorAll("button[aria-haspopup=menu]:not([aria-label])")) set(menu, "aria-label", "menu of the page");
    showLink();
  }
  const tidySoon = soon(tidy);
  document.addEventListener("DOMContentLoaded", () => {
    new MutationObserver(tidySoon).observe(document.body, { subtree: true, childList: true });
    tidySoon();
  });
  addEventListener("resize", tidySoon);
})();
