"""Marks of blocks, by which a fit that goes on knows that it is given the same ones."""

from __future__ import annotations

#: Mark of the end of the blocks.
END = "end"


def check_mark(marks: list[str], number: int, mark: str) -> None:
    """Compare the mark of a block, or of the end, with the one seen before; add it if it is new."""
    if number == len(marks):
        marks.append(mark)
    elif mark == END:
        check_count(marks, number)
    elif marks[number] == END:
        raise ValueError(f"block {number} is not one of the {number}{_OTHERS}")
    elif marks[number] != mark:
        raise ValueError(f"block {number} is not the one{_OTHERS}")


def check_count(marks: list[str], count: int) -> None:
    """Refuse another number of blocks than was seen before, as far as their end was seen."""
    complete = END in marks[-1:]
    seen = len(marks) - complete
    if count < seen or (complete and count > seen):
        least = "" if complete else "at least "
        raise ValueError(f"there are {count} blocks, not {least}the {seen}{_OTHERS}")


_OTHERS = " that the checkpoint was made with; give the same blocks again, or delete the checkpoint"
