"""Ways to damage a file: blindly, and with knowledge of its format."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pickle
import re
import struct
import zipfile
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

import pyarrow.parquet

from tests.fuzz import thrift

#: Numbers that counts, lengths and offsets may be replaced by.
NUMBERS = [
    0, 1, -1, 2, 3, 7, 8, 15, 16, 100, 127, 128, 255, 256, 1000, 4096, 65535, 65536, 10**6, 2**24,
    2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**32, 10**10, 10**12, 2**40, 2**62, 2**63 - 1, -(2**63),
]  # fmt: skip
#: Runs a command when it is unpickled; see tests.fuzz.readers.
ATTACK = b"cos\nmkdir\n(Vexecuted\ntR."

Way = Callable[[Random, bytes], bytes]


def number(rng: Random, near: int = 0) -> int:
    """A number that is out of place."""
    return near + rng.choice([-2, -1, 1, 2, 8]) if rng.random() < 0.3 else rng.choice(NUMBERS)


def blind(rng: Random, content: bytes) -> bytes:
    """A few bytes changed, put in, taken out or moved."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 5, 20])):
        place, size = rng.randrange(len(data) + 1), rng.choice([1, 1, 2, 4, 8, 30, 300])
        match rng.randrange(9):
            case 0 | 1:
                data[place : place + 1] = bytes([rng.randrange(256)])
            case 2 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 3:
                data[place : place + size] = b""
            case 4:
                data[place:place] = rng.randbytes(size)
            case 5:
                data[place : place + size] = rng.randbytes(len(data[place : place + size]))
            case 6:
                data[place : place + size] = bytes([rng.choice([0, 255])]) * len(
                    data[place : place + size]
                )
            case 7:
                other = rng.randrange(len(data) + 1)
                data[place:place] = data[other : other + size]
            case 8:
                data = data[:place] if rng.random() < 0.5 else data[place:]
    return bytes(data)


def integers(rng: Random, content: bytes) -> bytes:
    """Aligned small numbers, which may be counts or offsets, replaced by others."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 4])):
        form = rng.choice(["<i", "<q", "<h", ">i"])
        size = struct.calcsize(form)
        for _ in range(50):
            place = rng.randrange(max(len(data) // size, 1)) * size
            if (
                place + size <= len(data)
                and 0 <= (old := struct.unpack_from(form, data, place)[0]) < 2**20
            ):
                new = number(rng, old) & (2 ** (8 * size) - 1)
                data[place : place + size] = new.to_bytes(size, "big" if form[0] == ">" else "little")
                break
    return bytes(data)


_WORDS = [
    b'"', b"'", b",", b"\t", b";", b"\n", b"\r", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"nan", b"inf",
    b"-1e999", b"1e-999", b"9" * 400, b"NA", b"None", b"=1+1", b"#", b":", b"qid:", b"-0", b"0x1F",
    b"1_000", b"\xc3\xa9", b"a.1", b"Unnamed: 0", b"kind", b"1,2", b"-7:3", b"0:1", b"2147483648:1",
    b"99999999999999999999:1", b"1:nan", b"[" * 2000, b'{"a":' * 2000, b"\xed\xa0\x80", b"true",
    b"x" * 70_000, b"1970-01-01", b"3+2j",
]  # fmt: skip


def words(rng: Random, content: bytes) -> bytes:
    """Cells, lines and marks of text put in, doubled, taken out or exchanged."""
    parts = re.split(rb"([\n,\t: \"{}\[\]])", content)
    for _ in range(rng.choice([1, 1, 2, 4])):
        place = rng.randrange(len(parts))
        match rng.randrange(4):
            case 0:
                parts[place] = rng.choice(_WORDS)
            case 1:
                parts.insert(place, rng.choice(_WORDS))
            case 2:
                other = rng.randrange(len(parts))
                parts[place], parts[other] = parts[other], parts[place]
            case 3 if len(parts) > 1:
                del parts[place : place + rng.choice([1, 2, 10])]
        parts = parts or [b""]
    return b"".join(parts)


def inside_gz(way: Way) -> Way:
    """Damage of what was compressed; the compression is in order."""
    return lambda rng, content: gzip.compress(way(rng, gzip.decompress(content)), mtime=0)


_NPY = [
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }",
    b"{'descr': '<f8', 'fortran_order': True, 'shape': (%d, 3), }",
    b"{'descr': '<U%d', 'fortran_order': False, 'shape': (30,), }",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (%d,), }",
    b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (%d,), }",
    b"{'descr': '<c16', 'fortran_order': False, 'shape': (%d,), }",
    b"(" * 5000 + b"%d",
]


def npy_header(rng: Random, content: bytes) -> bytes:
    """The header of an array claims something else."""
    if content[:6] != b"\x93NUMPY":
        return content
    length = int.from_bytes(content[8:10], "little")
    header, values = content[10 : 10 + length], content[10 + length :]
    match rng.randrange(6):
        case 0:
            header = rng.choice(_NPY) % number(rng)
        case 1:
            header = re.sub(rb"\d+", lambda m: b"%d" % number(rng, int(m[0])), header)
        case 2:
            header = blind(rng, header)
        case 3:
            values = blind(rng, values) if values else rng.randbytes(8)
        case 4:
            values = ATTACK
            header = _NPY[3] % 1
        case 5:
            return content[:6] + rng.randbytes(4) + header + values
    return content[:8] + (len(header) & 0xFFFF).to_bytes(2, "little") + header + values


def members(rng: Random, content: bytes) -> bytes:
    """Arrays of an archive changed, exchanged or left out; the archive itself is in order."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
        way = archive.infolist()[0].compress_type
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(list(parts))
        match rng.randrange(5):
            case 0 | 1 | 2:
                parts[name] = npy_header(rng, parts[name])
            case 3:
                parts[name] = parts[rng.choice(list(parts))]
            case 4 if len(parts) > 1:
                del parts[name]
    return _archive(parts, way)


def _archive(parts: dict[str, bytes], way: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", way) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return out.getvalue()


#: Where in a record of a zip file which field is: local file, central directory, end.
_RECORDS = {
    b"PK\x03\x04": [(4, 2), (6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)],
    b"PK\x01\x02": [
        (6, 2), (8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (42, 4)
    ],
    b"PK\x05\x06": [(4, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)],
}  # fmt: skip


def zip_records(rng: Random, content: bytes) -> bytes:
    """Methods, sizes, offsets and counts of a zip file."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 3])):
        mark = rng.choice(list(_RECORDS))
        found = [m.start() for m in re.finditer(re.escape(mark), data)]
        if found:
            start, (place, size) = rng.choice(found), rng.choice(_RECORDS[mark])
            old = int.from_bytes(data[start + place : start + place + size], "little")
            new = number(rng, old) & (2 ** (8 * size) - 1)
            data[start + place : start + place + size] = new.to_bytes(size, "little")
    return bytes(data)


def _change(rng: Random, root: thrift.Node) -> None:
    """Numbers, texts, lists and fields of a Thrift struct."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        node = rng.choice(thrift.nodes(root))
        if node.kind in thrift.INTEGERS:
            node.value = number(rng, node.value)
        elif node.kind == thrift.BINARY:
            if rng.random() < 0.5:
                node.value = blind(rng, node.value) if node.value else b"x"
            else:
                node.claimed = number(rng, len(node.value))
        elif node.kind in (thrift.LIST, thrift.STRUCT) and node.value:
            place = rng.randrange(len(node.value))
            match rng.randrange(4):
                case 0:
                    del node.value[place]
                case 1:
                    node.value.insert(place, node.value[place])
                case 2 if node.kind == thrift.LIST:
                    node.claimed = abs(number(rng, len(node.value)))
                case _:
                    other = rng.randrange(len(node.value))
                    node.value[place], node.value[other] = node.value[other], node.value[place]
        elif node.kind in (thrift.TRUE, thrift.FALSE):
            node.kind = thrift.TRUE + thrift.FALSE - node.kind


def parquet_footer(rng: Random, content: bytes) -> bytes:
    """Schema, counts, offsets and statistics of a Parquet file."""
    length = int.from_bytes(content[-8:-4], "little")
    footer, _ = thrift.read_struct(content[-8 - length : -8], 0)
    _change(rng, footer)
    written = thrift.write_struct(footer)
    return content[: -8 - length] + written + len(written).to_bytes(4, "little") + b"PAR1"


def parquet_pages(rng: Random, content: bytes) -> bytes:
    """Headers of pages; with them the checksums, so that only sizes and counts tell."""
    metadata = pyarrow.parquet.ParquetFile(io.BytesIO(content)).metadata
    group = metadata.row_group(rng.randrange(metadata.num_row_groups))
    chunk = group.column(rng.randrange(group.num_columns))
    place = chunk.dictionary_page_offset if rng.random() < 0.5 else None
    place = chunk.data_page_offset if place is None else place
    header, end = thrift.read_struct(content, place)
    _change(rng, header)
    written = thrift.write_struct(header)
    if len(written) < end - place:  # offsets stay right
        written = written[:-1] + b"\0" * (end - place - len(written) + 1)
    return content[:place] + written + content[end:]


def arrow_metadata(rng: Random, content: bytes) -> bytes:
    """Offsets, lengths and counts in the messages of an Arrow file and in its footer."""
    regions, place = [], 8
    while content[place : place + 4] == b"\xff" * 4:
        length = int.from_bytes(content[place + 4 : place + 8], "little")
        if not length:
            break
        regions.append((place + 8, place + 8 + length))
        end = content.find(b"\xff" * 4, place + 8 + length)
        place = end if end > 0 else len(content)
    footer = int.from_bytes(content[-10:-6], "little")
    regions.append((len(content) - 10 - footer, len(content) - 10))
    start, end = rng.choice(regions)
    return content[:start] + integers(rng, content[start:end]) + content[end:]


def sums(rng: Random, content: bytes) -> bytes:
    """Lines of a cache with other values and a right checksum."""
    lines = content.decode().split("\n")
    for _ in range(rng.choice([1, 2])):
        place = rng.randrange(len(lines))
        entry: dict[str, Any] = {
            "fit": rng.choice(["0000", 3, None, ["a"]]),
            "scores": rng.choice([{"score": 0.5}, {}, [], None, {"score": "x"}, {"a": None}]),
            "seconds": rng.choice([[1.0, 2.0], [1.0], [], None, ["a", "b"], [10**400, 1], {"a": 1}]),
        }
        digest = hashlib.sha256(json.dumps(entry).encode()).hexdigest()[:32]
        lines[place] = json.dumps({**entry, "sum": digest})
    return "\n".join(lines).encode()


def resealed(way: Way) -> Way:
    """Damage of what a sealed file holds; its checksum is in order."""

    def damage(rng: Random, content: bytes) -> bytes:
        end = content.rindex(b"\nmercer ")
        kind = content[end:].split()[1].decode()
        inner = way(rng, content[:end])
        return inner + f"\nmercer {kind} 1 {hashlib.sha256(inner).hexdigest()}\n".encode()

    return damage


def tree(rng: Random, content: bytes) -> bytes:
    """The JSON of a checkpoint."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    if "tree.npy" not in parts:
        return members(rng, content)
    text = words(rng, parts["tree.npy"][128:])
    text = re.sub(rb"\d+", lambda m: m[0] if rng.random() < 0.95 else b"%d" % number(rng), text)
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % len(text)
    parts["tree.npy"] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + text
    return _archive(parts)


#: What a model must not hold: functions, types and calls.
_CALLS = [
    {"__loader__": "FunctionNode", "__module__": "os", "__class__": "mkdir"},
    {"__loader__": "TypeNode", "__module__": "builtins", "__class__": "eval"},
    {"__loader__": "ObjectNode", "__module__": "subprocess", "__class__": "Popen", "content": None},
    {"__loader__": "ObjectNode", "__module__": "sklearn.svm._classes", "__class__": "NuSVC"},
    {
        "__loader__": "ConstructorFromReduceNode", "__module__": "os", "__class__": "mkdir",
        "content": {
            "__loader__": "TupleNode", "__module__": "builtins", "__class__": "tuple",
            "content": [
                {
                    "__loader__": "JsonNode", "__module__": "builtins", "__class__": "str",
                    "content": '"executed"', "is_json": True,
                }
            ],
        },
    },
]  # fmt: skip
_VALUES = [
    "null",
    "true",
    "0",
    "-1",
    "1e999",
    "NaN",
    '"x"',
    "[]",
    "{}",
    "[" * 2000,
    "9" * 5000,
    "3.5",
    "",
]


def schema(rng: Random, content: bytes) -> bytes:
    """The JSON of a model: types, values, names of files and references between its parts."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    root = json.loads(parts["schema.json"])
    nodes, left = [], [root]
    while left:
        one = left.pop()
        if isinstance(one, dict) and "__loader__" in one:
            nodes.append(one)
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else []
    for _ in range(rng.choice([1, 1, 2, 3])):
        node, other = rng.choice(nodes), deepcopy(rng.choice(nodes))  # a part is not in itself
        match rng.randrange(7):
            case 0:
                node.update(deepcopy(rng.choice(_CALLS)))
            case 1:
                node.update({key: other.get(key) for key in ("__loader__", "__module__", "__class__")})
            case 2:
                node["content"] = rng.choice(_VALUES)
            case 3:
                node["__id__"] = other.get("__id__")
            case 4:
                node[rng.choice(list(node))] = rng.choice([None, "x", [], {}, 3, other.get("content")])
            case 5:
                node["file"] = rng.choice([*parts, "nothing.npy", "../x.npy"])
            case 6:
                del node[rng.choice(list(node))]
        nodes = [one for one in nodes if "__loader__" in one] or [root]
    parts["schema.json"] = json.dumps(root).encode()
    if rng.random() < 0.2:
        parts["schema.json"] = words(rng, parts["schema.json"])
    return _archive(parts)


def foreign(rng: Random, content: bytes) -> bytes:
    """Files that are something else."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.npy", ATTACK)
    return rng.choice(
        [
            b"", b"\n", ATTACK, pickle.dumps(({"rows": "these"}, {})), out.getvalue(), b"PAR1",
            b"ARROW1", b"FEA1" + rng.randbytes(200) + b"FEA1", gzip.compress(b""), rng.randbytes(1000),
            b"PAR1" + rng.randbytes(50) + (40).to_bytes(4, "little") + b"PAR1", content[::-1],
        ]
    )  # fmt: skip


WAYS: dict[str, list[Way]] = {
    "csv": [blind, words, words, words],
    "gz": [blind, integers, inside_gz(words), inside_gz(blind)],
    "svmlight": [blind, words, words, words],
    "npz": [blind, members, members, zip_records, zip_records, integers],
    "parquet": [blind, parquet_footer, parquet_footer, parquet_pages, parquet_pages, integers],
    "feather": [blind, arrow_metadata, arrow_metadata, integers, integers],
    "cache": [blind, words, words, sums],
    "checkpoint": [blind, resealed(blind), resealed(members), resealed(tree), resealed(zip_records)],
    "model": [
        blind,
        resealed(blind),
        resealed(members),
        resealed(members),
        resealed(schema),
        resealed(schema),
        resealed(zip_records),
    ],
}


def damaged(kind: str, rng: Random, content: bytes) -> bytes:
    """The content with one damage of its kind; rarely another file altogether."""
    way = foreign if rng.random() < 0.01 else rng.choice(WAYS[kind])
    return way(rng, content)
