// SPDX-License-Identifier: MIT
// Search, the menu of narrow screens, versions, light or dark. Nothing is loaded from elsewhere and nothing is sent.
"use strict";
const root = document.documentElement, field = document.getElementById("search"), results = document.getElementById("results");
const asked = new URLSearchParams(location.search);

function remembered(value) {
  try {
    if (value) localStorage.setItem("theme", value);
    return localStorage.getItem("theme");
  } catch { return null; }  // pages opened from files may have no storage
}
function setTheme(theme) {
  if (theme) root.dataset.theme = theme;
}
setTheme(asked.get("theme") || remembered());
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(dark ? "light" : "dark");
  remembered(root.dataset.theme);
});

// Without this script the button is a link to the menu, which CSS shows as the target.
const menu = document.getElementById("menu"), menuButton = document.getElementById("menu_button");
menuButton.addEventListener("click", (event) => {
  event.preventDefault();
  menuButton.setAttribute("aria-expanded", menu.classList.toggle("open"));
});

// The headings of a page are listed beside the text where there is room.
const contents = document.querySelector(".contents"), wide = matchMedia("(min-width: 60.01rem)");
function listHeadings() {
  if (contents) contents.open = wide.matches;
}
wide.addEventListener("change", listHeadings);
listHeadings();

// Versions: the page of the same name in the other one, where it has such a page. Without a site of its own a version is a
// section of the changelog.
const versions = document.getElementById("version"), shown = versions.value, here = location.pathname.split("/").pop() || "index.html";
if (typeof VERSIONS !== "undefined") {
  versions.replaceChildren(...VERSIONS.map(({ name, folder, pages, anchor }) => {
    const current = name === shown;
    const there = folder === null ? `${root.dataset.root}changelog.html#${anchor}` : `${root.dataset.root}${folder}${pages.includes(here) ? here : "index.html"}`;
    return new Option(name, there, current, current);
  }));
  versions.addEventListener("change", () => { location.href = versions.value; });
}

function around(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
  return (at ? "… " : "") + text.slice(at, at + 140);
}
function search() {
  const { found, corrected, words } = searched(field.value);
  results.replaceChildren();
  results.hidden = words.length === 0;
  if (!words.length) return;
  if (corrected.length) {
    const note = document.createElement("p");
    note.textContent = `Results for ${corrected.join(", ")}`;
    results.append(note);
  }
  for (const section of found.slice(0, 30)) {
    const link = document.createElement("a"), where = document.createElement("small");
    link.href = `${section.page}.html#${section.anchor}`;
    link.textContent = section.heading;
    where.textContent = `${section.title}: ${around(section.text, words[0])}`;
    link.append(where);
    results.append(link);
  }
  if (!found.length) results.textContent = "Nothing found.";
}
field.addEventListener("input", search);
results.addEventListener("click", () => { results.hidden = true; });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") results.hidden = true;
  if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
  if (event.key === "Enter" && document.activeElement === field) results.querySelector("a")?.click();
});
if (asked.get("q")) {
  field.value = asked.get("q");
  search();
}
