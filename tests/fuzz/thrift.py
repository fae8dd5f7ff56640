"""Thrift's compact protocol, in which Parquet writes its headers: enough to change them anywhere."""

from __future__ import annotations

from typing import Any

TRUE, FALSE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 7, 8, 9, 10, 12
INTEGERS = (4, 5, 6)


class Node:
    """A value of some type; lists may claim another length than they have."""

    def __init__(self, kind: int, value: Any) -> None:
        self.kind, self.value = kind, value
        self.claimed: int | None = None
        self.element = 0


def read_struct(data: bytes, place: int) -> tuple[Node, int]:
    """A struct as a list of pairs of field number and node, and where it ends."""
    found, number = [], 0
    while data[place]:
        byte = data[place]
        place += 1
        if byte >> 4:
            number += byte >> 4
        else:
            number, place = _zigzag(data, place)
        value, place = _read(data, place, byte & 15, in_list=False)
        found.append((number, value))
    return Node(STRUCT, found), place + 1


def _read(data: bytes, place: int, kind: int, in_list: bool) -> tuple[Node, int]:
    if kind in (TRUE, FALSE):
        return Node(kind, None), place + in_list
    if kind == 3:
        return Node(kind, data[place]), place + 1
    if kind in INTEGERS:
        value, place = _zigzag(data, place)
        return Node(kind, value), place
    if kind == DOUBLE:
        return Node(kind, data[place : place + 8]), place + 8
    if kind == BINARY:
        length, place = _varint(data, place)
        return Node(kind, data[place : place + length]), place + length
    if kind in (LIST, SET):
        size, element = data[place] >> 4, data[place] & 15
        place += 1
        if size == 15:
            size, place = _varint(data, place)
        node = Node(kind, [])
        node.element = element
        for _ in range(size):
            value, place = _read(data, place, element, in_list=True)
            node.value.append(value)
        return node, place
    if kind == STRUCT:
        return read_struct(data, place)
    raise ValueError(f"type {kind}")


def write_struct(node: Node) -> bytes:
    """The bytes of a struct."""
    out, before = bytearray(), 0
    for number, value in node.value:
        step = number - before
        out += (
            bytes([step << 4 | value.kind])
            if 0 < step < 16
            else bytes([value.kind]) + _as_zigzag(number)
        )
        out += _write(value)
        before = number
    return bytes(out) + b"\0"


def _write(node: Node) -> bytes:
    if node.kind in (TRUE, FALSE):
        return b""
    if node.kind == 3:
        return bytes([node.value])
    if node.kind in INTEGERS:
        return _as_zigzag(node.value)
    if node.kind == DOUBLE:
        return bytes(node.value)
    if node.kind == BINARY:
        return _as_varint(len(node.value) if node.claimed is None else node.claimed) + node.value
    if node.kind in (LIST, SET):
        size = len(node.value) if node.claimed is None else node.claimed
        head = (
            bytes([size << 4 | node.element])
            if size < 15
            else bytes([0xF0 | node.element]) + _as_varint(size)
        )
        return head + b"".join(
            bytes([value.kind]) if value.kind in (TRUE, FALSE) else _write(value) for value in node.value
        )
    return write_struct(node)


def nodes(node: Node) -> list[Node]:
    """A node and all below it."""
    below = (
        [v for _, v in node.value]
        if node.kind == STRUCT
        else node.value
        if node.kind in (LIST, SET)
        else []
    )
    return [node, *(one for child in below for one in nodes(child))]


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place


def _zigzag(data: bytes, place: int) -> tuple[int, int]:
    value, place = _varint(data, place)
    return value >> 1 ^ -(value & 1), place


def _as_varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _as_zigzag(value: int) -> bytes:
    return _as_varint(value << 1 ^ value >> 63)
