// SPDX-License-Identifier: MIT
// What a search finds, best first. SECTIONS is search_index.js: every section of every page, and how much its page counts.
"use strict";

// Every word must occur. A heading that is the word counts most, then one that begins with it, one that has it, the text; and
// guides count more than the lists of what headers and modules declare.
function score(section, choices) {
  let total = 0;
  for (const words of choices) {
    let best = 0;
    for (const word of words) {
      const inText = section.words.split(word).length - 1;
      best = Math.max(best, section.name === word ? 100 : section.name.startsWith(word) ? 40 : section.name.includes(word) ? 20
        : inText ? 4 + Math.min(6, inText) : 0);
    }
    if (!best) return 0;
    total += best + (words.some((word) => section.of.includes(word)) ? 10 : 0);
  }
  return total * section.weight;
}

let prepared = null, vocabulary = null;
function sections() {
  prepared ??= SECTIONS.map((s) => ({ ...s, name: s.heading.toLowerCase(), words: s.text.toLowerCase(), of: s.title.toLowerCase() }));
  return prepared;
}

// Whether one letter too many, too few, another one, or two that changed places make one word of the other.
function oneTypo(a, b) {
  if (a.length > b.length) [a, b] = [b, a];
  if (b.length - a.length > 1 || a === b) return false;
  let k = 0;
  while (k < a.length && a[k] === b[k]) ++k;
  if (a.length < b.length) return a.slice(k) === b.slice(k + 1);
  return a.slice(k + 1) === b.slice(k + 1) || (a[k] === b[k + 1] && a[k + 1] === b[k] && a.slice(k + 2) === b.slice(k + 2));
}

// The words of the site that a word which occurs nowhere may have been meant to be, the most frequent first.
function corrections(word) {
  if (word.length < 4) return [];
  if (!vocabulary) {
    vocabulary = new Map();
    for (const s of sections()) {
      for (const found of `${s.name} ${s.words}`.match(/[\p{L}\p{N}_]+/gu) || []) {
        for (const part of new Set([found, ...found.split("_")])) vocabulary.set(part, (vocabulary.get(part) || 0) + 1);
      }
    }
  }
  return [...vocabulary.keys()].filter((known) => oneTypo(word, known)).sort((a, b) => vocabulary.get(b) - vocabulary.get(a)).slice(0, 4);
}

// American and British spelling find each other: optimizer and optimiser, color and colour.
function spellings(word) {
  const others = [word.replace(/iz(?=[aei])/g, "is"), word.replace(/is(?=[aei])/g, "iz"), word.replace(/our/g, "or"),
    word.replace(/or(?=s|i|ed|$)/g, "our")];
  return [word, ...others.filter((other) => other !== word && occurs(other))];
}

const occurs = (word) => sections().some((s) => s.name.includes(word) || s.words.includes(word));

// {found: sections in order, corrected: words that were taken for what was typed}
function searched(text) {
  const corrected = [];
  const choices = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const known = spellings(word);
    if (occurs(word) || known.length > 1) return known;
    const meant = corrections(word);
    corrected.push(...meant);
    return meant.length ? [...new Set(meant.flatMap(spellings))] : [word];
  });
  const found = choices.length ? sections().map((s) => [score(s, choices), s]).filter(([points]) => points > 0) : [];
  found.sort((a, b) => b[0] - a[0]);
  return { found: found.map(([, s]) => s), corrected, words: choices.flat() };
}
