"""From raw web pages to counts of words, as the hypersphere paper describes it.

The paper keeps letters and numerals, in lower case, writes each digit ``#``, and takes the words whose
total count exceeds a fraction of the number of pages.  It used Beautiful Soup and NLTK, but does not
say how; tags and entities are treated here in the plainest way.  The WebKB counts that the experiments
read were made earlier by the same rules and have 396 such words, where the paper has 393; the raw
pages are not available to be counted again.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

_HEADER_LINE = re.compile(r"(HTTP/|MIME-Version|Date|Server|Content-|Last-modified)", re.IGNORECASE)
_HIDDEN = re.compile(r"<!--.*?-->|<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_WORD = re.compile(r"[a-z0-9]+")
_DIGIT = re.compile(r"[0-9]")


def tokens(page: bytes | str, header: bool = True) -> list[str]:
    r"""Words of a page, in order.

    Comments, scripts, style sheets and tags are removed, entities resolved.  A word is a run of letters
    and digits in lower case; each digit is written ``#``.

    Parameters
    ----------
    page : bytes or str
        The page with the header of its server; bytes are Latin-1.
    header : bool
        Keep the words of the header, which is all up to the first empty line.

    Examples
    --------
    >>> tokens(b"Server: NCSA/1.5\n\n<b>CS 101</b> &amp; caf\xe9<!-- no -->")
    ['server', 'ncsa', '#', '#', 'cs', '###', 'caf']
    >>> tokens("<h1>Fall 1996</h1>Room 12B", header=False)
    ['fall', '####', 'room', '##b']
    """
    text = page.decode("latin-1") if isinstance(page, bytes) else page
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    if not header:
        text = without_header(text)
    text = html.unescape(_TAG.sub(" ", _HIDDEN.sub(" ", text))).lower()
    return [_DIGIT.sub("#", word) for word in _WORD.findall(text)]


def without_header(text: str) -> str:
    """The page after the first empty line, if it begins with the header of a server."""
    head, _, rest = text.partition("\n\n")
    return rest if _HEADER_LINE.match(head) else text


def count(pages: Iterable[bytes | str], k: int = 10, header: bool = True) -> tuple[Any, list[str]]:
    """Counts of frequent words: those that occur more than once in ``k`` pages.

    Parameters
    ----------
    pages : iterable of bytes or str
    k : int
        Words with a total count above ``len(pages) / k`` are kept: 10, 20, 30 and 40 in the paper.
    header : bool
        Count the words of the headers of servers, too.

    Returns
    -------
    counts : sparse matrix of shape (pages, words)
    words : list of str
        The most frequent first, and equally frequent ones in the order of the alphabet.

    Examples
    --------
    >>> counts, words = count(["the cat, the dog", "the end"], k=1, header=False)
    >>> words, counts.toarray()
    (['the'], array([[2],
           [1]]))
    """
    rows = [Counter(tokens(page, header)) for page in pages]
    totals: Counter[str] = Counter()
    for row in rows:
        totals.update(row)
    frequent = (word for word, total in totals.items() if total > len(rows) / k)
    words = sorted(frequent, key=lambda word: (-totals[word], word))
    columns = {word: j for j, word in enumerate(words)}
    entries = [
        (i, columns[word], n) for i, row in enumerate(rows) for word, n in row.items() if word in columns
    ]
    i, j, values = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    return sparse.csr_matrix((values, (i, j)), shape=(len(rows), len(words))), words
