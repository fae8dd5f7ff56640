"""The data folder: its location, and checks of its files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

#: Environment variable with the data folder.
VARIABLE = "MERCER_DATA"
#: Where the data sets come from.
ORIGINS = {
    "webkb": (
        "the WebKB 4 Universities pages of Carnegie Mellon University "
        "(http://www.cs.cmu.edu/afs/cs/project/theo-20/www/data/; a copy is on GitHub, "
        "namaemonaishi/WebKB-classification, commit 40c1374), four classes, counted as "
        "docs/reproduce/index.md says"
    ),
    "sp500": (
        "the Kaggle releases of S&P 500 prices (GitHub CNuge/kaggle-code, commits 9941dfe, 35f7f29 "
        "and f110943) and the constituents of GitHub datasets/s-and-p-500-companies (commits 27bf067 "
        "and 5bfe9b1), joined as docs/reproduce/index.md says"
    ),
    "tcga_gbm": (
        "the MC3 release of the TCGA-GBM somatic mutations (GitHub PoisonAlien/TCGAmutations, commit "
        "3474e34, inst/extdata/MC3/GBM.RDs), one row per variant as docs/reproduce/index.md says"
    ),
    "mnist": (
        "the test part of MNIST in its original files (GitHub unixpickle/mnistlite, commit 7e77ce1, "
        "folder data)"
    ),
}
#: SHA-256 sums of the files, as sha256sum prints them.
_LISTING = """
add642b27b5b409b61d63c2b0a85af2454053555cc5e90a2e3f111c36f466549  webkb/webkb4_paper_counts.npz
b8c461af645bd007a6cf01f92e1ac9e96eb9e68f08c984e5a9f39fd9b488b58f  webkb/webkb4_paper_counts_no_header.npz
d9cdce759374000ce1a1649a1ae61265411db8494c3d6de365bb0c1b0b9d22a5  webkb/webkb4_counts.npz
9f547a7f9ce3c6fe86b21735ba0656e094adddf9119ddd0d9600b11189b70e70  sp500/sp500_close_2015-01-02_2016-11-18.csv.gz
90372de37ff40bea808c0d6a9660986b0eb700c5d1e11d1ec498e2ab23518c36  sp500/sp500_tickers.csv
9ddad9bbe49284aed9dbbe65439e6288e2ae97afc41f09b9398e3e5b32511578  tcga_gbm/gbm_mc3_mutations.csv.gz
ba05d2d6e06f59dd97d2d5378250478bb5c9b64296a5c2681700569121e3a2d7  mnist/t10k-images-idx3-ubyte.gz
94088eab8a64f51a9b34cc9716f54b6548ef8b2fd16ada6d1575091b933dbf4b  mnist/t10k-labels-idx1-ubyte.gz
"""  # noqa: E501
SUMS = {name: digest for digest, name in map(str.split, _LISTING.strip().splitlines())}


def find_folder(data: Path | str | None) -> Path | None:
    """The given data folder, or that of MERCER_DATA, or None."""
    given = data or os.environ.get(VARIABLE)
    if not given:
        return None
    folder = Path(given)
    if not folder.is_dir():
        raise ValueError(f"the data folder {folder} does not exist")
    return folder


def checked_file(folder: Path, name: str) -> Path:
    """Path of a file such as ``"sp500/sp500_tickers.csv"``; raise if it is missing or altered."""
    origin, path = ORIGINS[name.partition("/")[0]], folder / name
    if not path.is_file():
        raise ValueError(f"{path} is missing; it is made from {origin}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SUMS[name]:
        raise ValueError(
            f"{path} is not the expected file: its SHA-256 is {found[:12]}..., not "
            f"{SUMS[name][:12]}...; get it from {origin}"
        )
    return path


def read_counts(path: Path) -> tuple[Any, NDArray[Any]]:
    """A CSR matrix of counts and the classes of its rows."""
    with np.load(path, allow_pickle=True) as z:
        X = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
        return X.astype(float), z["y"]


def missing_folder(name: str, files: tuple[str, ...]) -> str:
    """Message for an experiment that needs data if no folder is given."""
    groups = dict.fromkeys(file.partition("/")[0] for file in files)
    origins = "; ".join(f"{group}: {ORIGINS[group]}" for group in groups)
    return (
        f"{name} needs the files {', '.join(files)}; give their folder with --data FOLDER or "
        f"{VARIABLE}, or run it on invented data with --quick.  Sources: {origins}"
    )
