"""The compile cache: programs are found again and correct, whatever other processes and disks do."""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.cpu.llvm import shared_code
from xlapy.cpu.llvm.processor import Processor, target_processor
from xlapy.cpu.serialization import executable, source_digest
from xlapy.runtime.backends import cpu
from xlapy.runtime.storage import compile_cache
from xlapy.runtime.storage.compile_cache import CompileCache, cache_key

PROGRAM = """HloModule cached
ENTRY e {
  x = f32[1024] parameter(0)
  c = f32[] constant(1), metadata={op_name="here"}
  w = f32[1024] broadcast(c), dimensions={}
  ROOT y = f32[1024] add(x, w)
}"""
X = np.arange(1024, dtype=np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use(monkeypatch, tmp_path / "cache")
    compile_cache._warn_once.cache_clear()
    return tmp_path / "cache"


def use(monkeypatch: pytest.MonkeyPatch, folder: Path, **values: flags.Value) -> None:
    chosen = flags.Flags({"cache_dir": str(folder), **values})
    monkeypatch.setattr(flags, "current", lambda: chosen)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the modules that were compiled."""
    names: list[str] = []
    original = cpu.compile_module

    def compile_module(module, *rest, **options):
        names.append(module.name)
        return original(module, *rest, **options)

    monkeypatch.setattr(cpu, "compile_module", compile_module)
    return names


def run(text: str = PROGRAM, **options) -> None:
    """Compiles, runs and checks the result."""
    result = xla.Client("cpu").compile(text, **options)(X)
    np.testing.assert_array_equal(result, X + 1)


def files(folder: Path) -> list[str]:
    """The names of all files except those of texts and the one with the digest of the compiler's sources."""
    return sorted(path.name for path in programs(folder))


def programs(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name != ".sources" and path.suffix != ".text"]


@pytest.fixture
def another_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Drops what this process has cached about the compiler's files; the returned list grows when they are read."""
    read: list[str] = []
    original = source_digest._digest

    def forget() -> list[str]:
        monkeypatch.setattr(source_digest, "_known", [])
        compile_cache._recall_sources.cache_clear()
        executable.compiler_identity.cache_clear()
        monkeypatch.setattr(source_digest, "_digest", lambda: read.append("read") or original())
        return read

    return forget


# -- hits and misses


def test_a_program_is_compiled_once(folder, compiled):
    run()
    run()
    run(PROGRAM.replace("here", "there"))  # where an instruction comes from changes nothing
    assert compiled == ["cached"]
    assert len(files(folder)) == 1
    assert folder.stat().st_mode & 0o777 == 0o700
    assert programs(folder)[0].stat().st_mode & 0o077 == 0


def test_without_the_flag_nothing_is_cached(folder, compiled, monkeypatch):
    use(monkeypatch, folder, cache_dir="")
    run()
    run()
    assert compiled == ["cached", "cached"] and not folder.exists()


def test_dumped_programs_are_compiled_with_all_stages(folder, compiled, monkeypatch, tmp_path):
    run()
    use(monkeypatch, folder, dump_to=str(tmp_path / "dump"))
    run()
    assert compiled == ["cached", "cached"]
    assert any(path.name.endswith(".loops.txt") for path in (tmp_path / "dump").iterdir())


def test_a_loaded_program_has_the_properties_of_a_compiled_one(folder):
    first, second = (xla.Client("cpu").compile(PROGRAM) for _ in range(2))
    assert second.as_hlo_text(optimized=True) == first.as_hlo_text(optimized=True)
    assert second.memory_analysis() == first.memory_analysis()
    assert second.serialize() == first.serialize()


LOOP = """HloModule looping
    body { v = f32[] parameter(0) ROOT r = f32[] add(v, v) }
    condition { v = f32[] parameter(0) most = f32[] constant(100) ROOT go = pred[] compare(v, most), direction=LT }
    ENTRY main { x = f32[] parameter(0) ROOT w = f32[] while(x), condition=condition, body=body }"""

TRANSPOSE = """HloModule transposing
    ENTRY main { x = f32[64,96] parameter(0) ROOT t = f32[96,64] transpose(x), dimensions={1,0} }"""


@pytest.mark.parametrize(
    ("text", "given", "expected", "shared"),
    [
        (LOOP, np.float32(1), np.float32(128), "host"),
        (TRANSPOSE, np.arange(6144, dtype=np.float32).reshape(64, 96), None, "xlapy_transpose_32_1_"),
    ],
    ids=["polls", "transpose"],
)
def test_a_loaded_program_includes_the_shared_functions(folder, compiled, monkeypatch, text, given, expected, shared):
    xla.Client("cpu").compile(text)
    assert any(name.startswith(shared) for name in shared_code._objects)
    monkeypatch.setattr(shared_code, "_objects", {})
    monkeypatch.setattr(shared_code, "compile_text", lambda *_: pytest.fail("it is compiled"))
    for emitter in ("emit_transpose", "_host_text"):
        monkeypatch.setattr(shared_code, emitter, lambda *_: pytest.fail("its text is emitted"))
    monkeypatch.setattr(shared_code, "_code", functools.cache(shared_code._code.__wrapped__))
    loaded = xla.Client("cpu").compile(text)
    np.testing.assert_array_equal(np.asarray(loaded(given)), given.T if expected is None else expected)
    assert compiled == [text.split()[1]]


def test_donation_is_part_of_the_key(folder, compiled):
    run()
    run(donate=[0])
    assert len(compiled) == 2
    client = xla.Client("cpu")
    given = client.device_put(X)
    np.testing.assert_array_equal(client.compile(PROGRAM, donate=[0])(given), X + 1)
    assert given.is_deleted()
    kept = client.device_put(X)
    np.testing.assert_array_equal(client.compile(PROGRAM)(kept), X + 1)
    np.testing.assert_array_equal(kept, X)
    assert len(compiled) == 2


def test_flags_that_change_code_are_part_of_the_key_and_others_are_not(folder, compiled, monkeypatch):
    run()
    use(monkeypatch, folder, rng_seed=7)
    run()
    assert len(compiled) == 1
    use(monkeypatch, folder, denormals="keep")
    run()
    assert len(compiled) == 2
    use(monkeypatch, folder, num_threads=1)
    run()
    assert len(compiled) == 3


@pytest.mark.parametrize("change", ["processor", "compiler", "features"])
def test_processor_and_compiler_are_part_of_the_key(monkeypatch, change):
    module = xla.parse_hlo(PROGRAM)
    before = cache_key(module, {})
    if change == "processor":
        monkeypatch.setattr(compile_cache, "target_processor", lambda: Processor("i386", target_processor().features))
    elif change == "features":
        features = frozenset({"sse2"})
        monkeypatch.setattr(compile_cache, "target_processor", lambda: Processor(target_processor().name, features))
    else:
        monkeypatch.setattr(compile_cache, "compiler_identity", lambda: {"xlapy": "0"})
    assert cache_key(module, {}) != before


def test_the_files_of_the_compiler_are_read_once_for_all_processes(folder, compiled, another_process):
    read = another_process()
    run()
    another_process()
    run()
    assert (compiled, read) == (["cached"], ["read"])
    (folder / ".sources").write_text("damaged")
    another_process()
    run()
    assert (compiled, read) == (["cached"], ["read", "read"])


def test_the_state_of_the_files_is_computed_once(folder, another_process, monkeypatch):
    another_process()
    run()
    another_process()
    asked: list[str] = []
    original = source_digest._files
    monkeypatch.setattr(source_digest, "_files", lambda: asked.append("asked") or original())
    run()
    assert asked == ["asked"]


def test_modified_files_are_read_again(folder, compiled, another_process, monkeypatch):
    read = another_process()
    run()
    another_process()
    monkeypatch.setattr(compile_cache, "source_files_state", lambda: "another state")
    run()
    assert (compiled, read) == (["cached"], ["read", "read"])


def test_the_state_of_files_changes_with_every_write(tmp_path, monkeypatch):
    package = tmp_path / "package"
    (package / "cpu").mkdir(parents=True)
    (package / "tools").mkdir()
    monkeypatch.setattr(source_digest, "_PACKAGE", package)
    (package / "cpu" / "fuse.py").write_text("one")
    first, digest = source_digest.source_files_state(), source_digest._digest()
    times = (package / "cpu" / "fuse.py").stat().st_mtime_ns
    (package / "tools" / "show.py").write_text("no part of programs")
    assert (source_digest.source_files_state(), source_digest._digest()) == (first, digest)
    (package / "cpu" / "fuse.py").write_text("two")
    os.utime(package / "cpu" / "fuse.py", ns=(times, times))
    assert source_digest.source_files_state() != first and source_digest._digest() != digest


def test_keys_depend_on_every_byte_of_constants():
    """Text distinguishes neither NaNs nor the elements of large constants."""
    numbers = np.zeros(100, np.float32)
    keys = set()
    for bits in (0x00000000, 0x80000000, 0x7FC00000, 0x7FC00001):
        numbers.view(np.uint32)[57] = bits
        b = xla.XlaBuilder("constants")
        xla.ops.constant(b, numbers)
        keys.add(cache_key(b.build().module, {}))
    assert len(keys) == 4


# -- damage


def damages(data: bytes) -> list[bytes]:
    flipped = [bytearray(data) for _ in range(8)]
    for number, one in enumerate(flipped):
        one[number * (len(one) - 1) // 7] ^= 0xFF
    cut = [data[: number * len(data) // 7] for number in range(7)]
    return [*map(bytes, flipped), *cut, data + b"\0", b"\0" * len(data), b"HloModule m"]


def test_a_damaged_entry_is_compiled_and_written_anew(folder, compiled, caplog):
    run()
    (path,) = programs(folder)
    whole = path.read_bytes()
    for number, damaged in enumerate(damages(whole)):
        path.write_bytes(damaged)
        run()
        assert len(compiled) == number + 2
        assert path.read_bytes() == whole
    assert "cached is compiled again" in caplog.text
    run()
    assert len(compiled) == len(damages(whole)) + 1


def test_an_entry_with_the_name_of_another_key(folder, compiled):
    run()
    (path,) = programs(folder)
    other = PROGRAM.replace("constant(1)", "constant(2)")
    xla.Client("cpu").compile(other)
    (second,) = (p for p in programs(folder) if p != path)
    second.write_bytes(path.read_bytes())
    np.testing.assert_array_equal(xla.Client("cpu").compile(other)(X), X + 2)


def test_a_directory_named_like_an_entry(folder, compiled, caplog):
    run()
    (path,) = programs(folder)
    path.unlink()
    path.mkdir()
    run()
    assert len(compiled) == 2 and "could not be stored" in caplog.text


# -- directories and disks


def test_directories_that_others_can_read_are_rejected(folder, compiled, caplog):
    folder.mkdir(mode=0o700)
    folder.chmod(0o755)
    run()
    run()
    assert compiled == ["cached", "cached"] and files(folder) == []
    message = f"cache directory {folder} has mode 0755: others could read or change programs in it; chmod 700 {folder}"
    assert caplog.text.count(message) == 1


def test_directories_of_other_users_are_rejected(folder, compiled, caplog, monkeypatch):
    folder.mkdir(mode=0o700)
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    run()
    assert files(folder) == []
    assert f"belongs to user {owner}, not to {owner + 1}" in caplog.text


def test_directories_that_cannot_be_created(folder, compiled, caplog):
    folder.write_text("a file")
    run()
    assert compiled == ["cached"] and "compiled without a cache" in caplog.text


def test_a_full_disk(folder, compiled, caplog, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(compile_cache.os, "replace", full)
    run()
    assert files(folder) == [] and "No space left on device" in caplog.text


def test_least_recently_used_entries_are_deleted_first(tmp_path):
    cache = CompileCache(tmp_path / "c", 10_000)
    for number in range(3):
        cache.put(f"key{number}", "p", bytes(3000))
        os.utime(tmp_path / "c" / f"key{number}.xla", (1000 + number, 1000 + number))
    assert cache.get("key0") == bytes(3000)  # used now
    cache.put("key3", "p", bytes(3000))
    assert {entry.key for entry in cache.entries()} == {"key0", "key2", "key3"}
    assert cache.get("key1") is None
    cache.put("huge", "p", bytes(20_000))
    assert cache.get("huge") is None and len(cache.entries()) == 3


def test_abandoned_files_are_deleted(tmp_path):
    cache = CompileCache(tmp_path / "c", 1 << 20)
    old, young = (tmp_path / "c" / name for name in (".old.unfinished", ".young.unfinished"))
    old.touch()
    young.touch()
    os.utime(old, (0, 0))
    cache.put("key", "p", b"data")
    assert files(tmp_path / "c") == [".young.unfinished", "key.xla"]


# -- several processes

SCRIPT = f"""
import numpy as np, xlapy as xla
print(np.asarray(xla.Client("cpu").compile({PROGRAM!r})(np.arange(1024, dtype=np.float32))).sum())
"""


def start(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "XLAPY_FLAGS": f"--cache_dir={folder}", "XLAPY_LOG": "info"}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdout=pipe, stderr=pipe, text=True)


def test_processes_share_a_directory(tmp_path):
    together = [start(tmp_path / "cache") for _ in range(2)]
    first = [process.communicate() for process in together]
    third, log = start(tmp_path / "cache").communicate()
    assert {out for out, _ in first} == {third} == {f"{(X + 1).sum()}\n"}
    assert "cached was compiled before" in log
    assert len(files(tmp_path / "cache")) == 1


def test_killed_writers_leave_no_partial_entries(tmp_path):
    cache = CompileCache(tmp_path / "c", 1 << 30)
    contents = [bytes([number]) * 300_000 for number in range(4)]
    times = random.Random(0)
    for _ in range(20):
        child = os.fork()
        if not child:
            while True:
                cache.put("key", "p", times.choice(contents))
        time.sleep(times.uniform(0.001, 0.02))
        os.kill(child, signal.SIGKILL)
        for _ in range(3):
            assert cache.get("key") in (None, *contents)
        os.waitpid(child, 0)
    assert cache.get("key") in contents
    assert len(cache.entries()) == 1


def test_the_cache_class_rejects_open_directories(monkeypatch, tmp_path):
    with raises(InvalidArgumentError, codes.CACHE_FOLDER, "mode 0777"):
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o777)
        CompileCache(tmp_path / "open", 1)


def test_custom_calls_are_cached_with_the_names_of_their_targets(folder, compiled):
    call = 'ROOT r = f32[1024] custom-call(x), custom_call_target="t"'
    text = f"HloModule c\nENTRY e {{ x = f32[1024] parameter(0)  {call} }}"
    try:
        for added in (1, 1, 5):
            xla.register_custom_call_target("t", lambda x, added=added: x + added)
            np.testing.assert_array_equal(xla.Client("cpu").compile(text)(X), X + added)
    finally:
        xla.unregister_custom_call_target("t")
    assert compiled == ["c"]


def test_threads_compile_a_program_once(folder, compiled):
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: run(), range(8)))
    assert compiled == ["cached"]


def test_a_file_that_a_process_still_writes_is_kept(tmp_path):
    """However long it takes: the process may have been suspended."""
    cache = CompileCache(tmp_path / "c", 1 << 20)
    path = tmp_path / "c" / ".slow.unfinished"
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.utime(path, (0, 0))
        cache.put("key", "p", b"data")
        assert path.exists()
    cache.put("key", "p", b"data")
    assert not path.exists()
