"""Downloads from a small server on this machine: good, wrong, cut, missing and not there at all."""

import gzip
import hashlib
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from feddr.datasets import download, heart_disease, mnist
from feddr.datasets.download import Remote, folder, obtain
from tests.datasets.formats import Digits, refusal
from tests.datasets.test_heart_disease import LINE

CONTENT = b"a file" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """Serves files by name; ``cut`` ones end before their announced length."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"file": CONTENT}
        self.cut: set[str] = set()
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rsplit("/", 1)[-1]
                outer.asked.append(self.path)
                if self.path.startswith("/moved/"):
                    self.send_response(302)
                    self.send_header("Location", f"/there/{name}")
                    self.end_headers()
                    return
                if name not in outer.files:
                    self.send_error(404)
                    return
                content = outer.files[name]
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if name in outer.cut else content)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
                """Keep quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/data/"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.http.shutdown()
    thread.join()
    made.http.server_close()


def only(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir()) if place.is_dir() else []


def test_a_file_is_fetched_once_and_kept(tmp_path: Path, server: Server) -> None:
    place, table = tmp_path / "new" / "place", {"file": Remote((server.url,), SHA256)}
    assert obtain(place, {"file": ()}, table) == [place / "file"]
    assert (place / "file").read_bytes() == CONTENT
    assert only(place) == ["file"]
    assert obtain(place, {"file": ()}, table) == [place / "file"]
    assert server.asked == ["/data/file"]
    (place / "file").rename(place / "known")
    assert obtain(place, {"file": ("known",)}, table) == [place / "known"]


def test_md5_where_there_is_no_better_checksum(tmp_path: Path, server: Server) -> None:
    md5 = Remote((server.url,), hashlib.md5(CONTENT).hexdigest(), "md5")
    assert obtain(tmp_path / "a", {"file": ()}, {"file": md5})
    wrong = Remote((server.url,), hashlib.md5(b"other").hexdigest(), "md5")
    with pytest.raises(ValueError, match=f"its md5 is {md5.digest} instead of {wrong.digest}"):
        obtain(tmp_path / "b", {"file": ()}, {"file": wrong})


def test_a_second_mirror_is_tried(tmp_path: Path, server: Server) -> None:
    closed = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    closed.server_close()
    dead = f"http://127.0.0.1:{closed.server_address[1]}/"
    assert obtain(tmp_path, {"file": ()}, {"file": Remote((dead, server.url), SHA256)})
    with pytest.raises(ValueError, match="Connection refused") as error:
        obtain(tmp_path / "other", {"file": ()}, {"file": Remote((dead,), SHA256)})
    message = refusal(error)
    assert f"put file in {tmp_path / 'other'}, or give a folder that has it as data_dir" in message


def test_a_redirection_is_followed(tmp_path: Path, server: Server) -> None:
    moved = server.url.replace("/data/", "/moved/")
    assert obtain(tmp_path, {"file": ()}, {"file": Remote((moved,), SHA256)})
    assert server.asked == ["/moved/file", "/there/file"]


@pytest.mark.parametrize("trouble", ["wrong checksum", "cut", "404", "too large"])
def test_what_is_not_the_file_leaves_nothing_behind(
    tmp_path: Path, server: Server, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {
        "wrong checksum": f"its sha256 is {hashlib.sha256(b'other').hexdigest()} instead of {SHA256}",
        "cut": "the transfer broke off after 3000 of 6000 bytes",
        "404": "Not Found",
        "too large": "it has more than 1,000 bytes",
    }
    if trouble == "wrong checksum":
        server.files["file"] = b"other"
    elif trouble == "cut":
        server.cut = {"file"}
    elif trouble == "404":
        server.files = {}
    else:
        monkeypatch.setattr(download, "LARGEST", 1000)
    with pytest.raises(ValueError, match="file could not be downloaded") as error:
        obtain(tmp_path, {"file": ()}, {"file": Remote((server.url,), SHA256)})
    assert expected[trouble] in refusal(error)
    assert only(tmp_path) == []


def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(ValueError, match="timed out"):
            obtain(tmp_path, {"file": ()}, {"file": Remote((url,), SHA256)})


def test_all_missing_files_are_named(tmp_path: Path, server: Server) -> None:
    table = {name: Remote((server.url,), SHA256) for name in ("file", "b", "c")}
    with pytest.raises(ValueError, match=r"^b could not be downloaded .* put b and c in"):
        obtain(tmp_path, dict.fromkeys(table, ()), table)
    assert only(tmp_path) == ["file"]


def test_the_folder_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDDR_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder("mnist", None) == tmp_path / "feddr" / "data" / "mnist"
    monkeypatch.setenv("FEDDR_DATA", str(tmp_path / "mine"))
    assert folder("mnist", None) == tmp_path / "mine" / "mnist"
    assert folder("mnist", str(tmp_path)) == tmp_path


def test_mnist_is_downloaded_as_far_as_it_is_needed(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDDR_DATA", str(tmp_path))
    module = sys.modules["feddr.datasets.mnist"]
    server.files = {name: gzip.compress(content) for name, content in Digits().files().items()}
    table = {name: Remote((server.url,), hashlib.sha256(c).hexdigest()) for name, c in server.files.items()}
    assert set(table) == set(module.FILES)
    monkeypatch.setattr(module, "FILES", table)
    assert mnist("iid", 4).num_clients == 4
    assert only(tmp_path / "mnist") == ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]
    assert mnist("writer", test="official").num_clients == 3
    assert only(tmp_path / "mnist") == sorted(table)


def test_heart_disease_is_downloaded(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDDR_DATA", str(tmp_path))
    module = sys.modules["feddr.datasets.heart_disease"]
    server.files = {name: f"{LINE}\n{LINE}\n".encode() for name in module.FILES}
    table = {name: Remote((server.url,), hashlib.sha256(c).hexdigest()) for name, c in server.files.items()}
    monkeypatch.setattr(module, "FILES", table)
    assert heart_disease().num_clients == 4
    assert len(server.asked) == 4


def test_every_mirror_is_a_folder_with_tls_and_every_checksum_has_its_length() -> None:
    modules = sys.modules
    for name in ("mnist", "heart_disease"):
        for remote in modules[f"feddr.datasets.{name}"].FILES.values():
            assert all(url.startswith("https://") and url.endswith("/") for url in remote.mirrors)
            assert len(remote.digest) == {"sha256": 64, "md5": 32}[remote.algorithm]
