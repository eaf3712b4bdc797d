#!/usr/bin/env python3
"""Writes the text of the reproduction: the prose of the first ten million bytes of enwik8.

    bench/reproduction/text.py enwik8 build/reproduction/wikipedia.txt

enwik8 is the first 10^8 bytes of the English Wikipedia of 3 March 2006 (http://mattmahoney.net/dc/textdata.html; CC BY-SA and GFDL).
Markup is removed: templates, tables, references, files, links to other languages, HTML, quotes of emphasis. Every article is a document of
paragraphs and headings, and `<|endoftext|>` separates documents. Source and text must have the checksums below.
"""
import hashlib
import html
import re
import sys

BYTES = 10_000_000
SOURCE = "5985c81c39d927ae0e169625790ca4d9e7d1531270c8b09ad73176a375bb3d97"
TEXT = "da267439a2866b7eac6e16c131cc03988ce797abe5659f1ce0946351f029ce2c"


def without_pairs(text, opening, closing):
    """Returns text without everything between opening and closing, nested pairs included."""
    pieces, depth, at = [], 0, 0
    for match in re.finditer(re.escape(opening) + "|" + re.escape(closing), text):
        if depth == 0:
            pieces.append(text[at:match.start()])
        depth = depth + 1 if match.group() == opening else max(depth - 1, 0)
        at = match.end()
    if depth == 0:
        pieces.append(text[at:])
    return "".join(pieces)


def link(match):
    """Returns the text that a link shows; "" for files, categories and links to other languages."""
    target, _, label = match.group(1).partition("|")
    if re.match(r"(Image|File|Media|Category|[a-z]{2,3}(-[a-z]+)*|simple|zh-min-nan):", target.strip(), re.I):
        return ""
    return label.rpartition("|")[2] or target


def prose(source):
    text = html.unescape(source)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"<(math|nowiki|pre|gallery|timeline|ref)\b[^>]*?(/>|>.*?</\1>)", "", text, flags=re.S | re.I)
    text = without_pairs(without_pairs(text, "{{", "}}"), "{|", "|}")
    for _ in range(3):  # captions of images contain links
        text = re.sub(r"\[\[([^\[\]]*)\]\]", link, text)
    text = re.sub(r"\[\w+://[^\s\]]+ ?([^\]]*)\]", r"\1", text)
    text = re.sub(r"<[^<>]*>", " ", text)
    text = html.unescape(text)
    text = re.sub(r"'{2,}", "", text)
    lines = []
    for line in text.split("\n"):
        line = re.sub(r"\s+", " ", line).strip()
        heading = re.fullmatch(r"=+ *(.*?) *=+", line)
        line = heading.group(1) if heading else line.lstrip("*#:; ")
        if line and not re.match(r"[|!{}\-]|__", line):
            lines.append(line)
    return "\n".join(lines)


def main():
    source = open(sys.argv[1], "rb").read(BYTES)
    if hashlib.sha256(source).hexdigest() != SOURCE:
        sys.exit(f"text.py: {sys.argv[1]} does not begin with the first {BYTES} bytes of enwik8; get it from http://mattmahoney.net/dc/enwik8.zip")
    pages = re.findall(r"<title>([^<]*)</title>.*?<text xml:space=\"preserve\">(.*?)</text>", source.decode(errors="ignore"), re.S)
    documents = []
    for title, text in pages:
        if text[:9].upper() == "#REDIRECT" or ":" in title:
            continue
        text = prose(text)
        if len(text) >= 500:
            documents.append(html.unescape(title) + "\n" + text)
    text = "\n<|endoftext|>\n".join(documents).encode() + b"\n"
    digest = hashlib.sha256(text).hexdigest()
    if digest != TEXT:
        sys.exit(f"text.py: the text has the checksum {digest}, not {TEXT}")
    open(sys.argv[2], "wb").write(text)
    print(f"{len(documents)} documents, {len(text)} bytes")


if __name__ == "__main__":
    main()
