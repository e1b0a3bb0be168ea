"""What native code would reach that has left its interpreter: the rows of BI-C that no script gets to.

The attacks are Python programs of our own, started as the sandboxes start theirs. `confined` ones have given
up what the code of strangers never needs; the others show what the jail alone holds.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.sandbox.errors import CodeError
from stepwell.sandbox.jail import jailed
from stepwell.sandbox.places import ALL_MAX, Places
from stepwell.sandbox.pool import SandboxPool
from stepwell.sandbox.probe import SandboxProbe
from tests.engines import until
from tests.outbound.listener import answered, listening
from tests.sandbox.jailing import opened, outcome

FOLDER = Path(sys.modules[SandboxPool.__module__].__file__ or "").parent
BEGIN = f"""
import ctypes, json, os, signal, socket, sys, threading, time
sys.path.insert(0, {str(FOLDER)!r})
def tried(*attempts):
    said = []
    for attempt in attempts:
        try:
            said.append(f"REACHED {{attempt()!r}}")
        except (OSError, RuntimeError, MemoryError) as error:
            said.append(type(error).__name__)
    print(json.dumps(said), flush=True)
"""
CONFINED = "import confinement\nconfinement.confine()\n"


def attack(program: str, *, confined: bool, **names: Any) -> Any:
    """Return what the program prints."""
    given = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    done = subprocess.run(
        jailed([sys.executable, "-I", "-S", "-c", BEGIN + (CONFINED if confined else "") + given + program]),
        capture_output=True,
        text=True,
        env={},
        cwd="/",
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


def _end_interpreters() -> None:
    """Kill this process' interpreters of Python by the signal of a forbidden call."""
    ours = {os.getpid()}
    killed = 0
    while True:  # parents have lower numbers, but a number may come round: until nothing is added
        before = len(ours)
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue  # it has ended
            if int(rest.split()[1]) in ours and int(folder.name) not in ours:
                ours.add(int(folder.name))
                if name == "monty":
                    os.kill(int(folder.name), signal.SIGSYS)
                    killed += 1
        if len(ours) == before:
            break
    assert killed == 1


@pytest.fixture
def secret_file() -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", prefix="stepwell-secret-", delete=False) as file:
        file.write("canary")
    os.chmod(file.name, 0o644)
    yield file.name
    os.unlink(file.name)


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C09")
@pytest.mark.parametrize("confined", [False, True])
def test_no_file_of_the_host_is_there(jail: None, secret_file: str, confined: bool) -> None:
    said = attack(
        """
tried(
    lambda: open("/etc/passwd").read(),
    lambda: open("/proc/1/environ").read(),
    lambda: open("/proc/self/mem", "rb").read(1),
    lambda: open(SECRET).read(),
    lambda: open("/usr/written", "w"),
    lambda: open("/written", "w"),
    lambda: os.listdir("/home") + os.listdir("/root"),
)
""",
        confined=confined,
        SECRET=secret_file,
    )

    assert not [each for each in said if each.startswith("REACHED")], said


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C09")
def test_only_the_three_standard_streams_are_open(jail: None) -> None:
    inherited = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        said = attack(
            """
def is_open(number):
    try:
        return bool(os.fstat(number))
    except OSError:
        return False
print(json.dumps([number for number in range(64) if is_open(number)]))
""",
            confined=True,
        )
    finally:
        os.close(inherited)

    assert said == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C10")
@pytest.mark.parametrize("confined", [False, True])
async def test_there_is_no_network(jail: None, confined: bool) -> None:
    async with listening(answered()) as listener:
        said = await asyncio.to_thread(
            attack,
            """
def udp(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        return there.sendto(b"x", (host, port))
tried(
    lambda: socket.create_connection(("127.0.0.1", PORT), 2),
    lambda: socket.create_connection(("127.0.0.1", 5432), 2),
    lambda: socket.create_connection(("169.254.169.254", 80), 2),
    lambda: socket.getaddrinfo("example.com", 80),
    lambda: udp("192.0.2.1", 53),
    lambda: socket.socket(socket.AF_UNIX).connect("/run/dbus/system_bus_socket"),
)
""",
            confined=confined,
            PORT=listener.port,
        )

        assert not [each for each in said if each.startswith("REACHED")], said
        assert listener.connections == 0


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C10")
def test_sockets_cannot_even_be_made_without_a_jail(monkeypatch: pytest.MonkeyPatch) -> None:
    said = attack("tried(lambda: socket.socket(), lambda: socket.socketpair())", confined=True)

    assert set(said) == {"PermissionError"}


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C11")
@pytest.mark.parametrize(
    "begins",
    [
        "def bomb():\n while True: os.fork()\nbomb()",
        "import _posixsubprocess, subprocess\nsubprocess.run(['/bin/true'])",
        "os.posix_spawn('/bin/sh', ['sh'], {})",
        "os.system('true')",
    ],
)
async def test_a_process_that_begins_another_is_killed_and_says_so(jailing: str, begins: str) -> None:
    command = [sys.executable, "-I", "-S", "-c", BEGIN + CONFINED + "sys.stdin.buffer.read(4)\n" + begins]
    pool = SandboxPool(jailed(command), size=1)
    with pytest.raises(CodeError) as error:
        await pool.run({}, 20.0)
    await pool.close()

    assert error.value.code == "CODE_PROCESS_LIMIT"
    assert error.value.hint


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C11")
async def test_a_python_interpreter_that_begins_a_process_is_killed_and_says_so(jailing: str) -> None:
    """The interpreter is a process of its own there. This one is ended as the kernel would end it."""
    async with opened("python") as sandbox:
        assert await outcome(sandbox, "return 1") == 1
        endless = asyncio.create_task(outcome(sandbox, "while True: pass", timeout=30.0))
        await asyncio.to_thread(_end_interpreters)

        assert await endless == "CODE_PROCESS_LIMIT"
        assert await outcome(sandbox, "return 2") == 2


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C11")
def test_ten_thousand_threads_end_at_once() -> None:
    said = attack(
        """
def threads():
    go = threading.Event()
    for number in range(10_000):
        threading.Thread(target=go.wait, daemon=True).start()
    return "10,000 threads"
tried(threads)
""",
        confined=True,
    )

    assert said == ["RuntimeError"]


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C12")
def test_a_disk_is_not_filled(jail: None) -> None:
    fill = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def fill():
    with open("/tmp/full", "wb", buffering=0) as file:
        for _ in range(1024):
            file.write(b"x" * 1_048_576)
    return "1 GiB"
tried(fill)
"""
    before = attack("tried(lambda: os.listdir('/tmp'))", confined=True)
    confined = attack(fill, confined=True)
    bare = attack(fill, confined=False)

    assert confined[0] == "OSError"  # not a byte
    assert bare[0] == "OSError"  # 16 MiB, which are gone with the process
    assert "full" not in before[0]
    assert attack("tried(lambda: os.listdir('/tmp'))", confined=True) == before


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C13")
async def test_a_process_that_hides_dies_with_its_jail(jail: None) -> None:
    hides = (
        BEGIN
        + """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    time.sleep(600)
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
time.sleep(600)
"""
    )
    pool = SandboxPool(jailed([sys.executable, "-I", "-S", "-c", hides]), size=1)
    with pytest.raises(CodeError) as error:
        await pool.run({}, 2.0)
    await asyncio.wait_for(pool.close(), 20)  # its output ends when the last process that holds it is gone

    assert error.value.code == "CODE_TIMEOUT"


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C22")
@pytest.mark.parametrize(
    "end", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "ctypes.string_at(0)", "sys.exit(3)"]
)
async def test_a_process_that_ends_itself_is_a_failure_of_the_code(end: str) -> None:
    pool = SandboxPool([sys.executable, "-I", "-S", "-c", BEGIN + "sys.stdin.buffer.read(4)\n" + end], size=1)
    with pytest.raises(CodeError) as error:
        await pool.run({}, 20.0)
    await pool.close()

    assert error.value.code == "CODE_CRASHED"


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C14")
async def test_a_flood_of_output_is_not_kept() -> None:
    flood = "while True: sys.stderr.write('x' * 65536); sys.stdout.buffer.write(b'\\xff' * 65536)"
    pool = SandboxPool([sys.executable, "-I", "-S", "-c", BEGIN + flood], size=1)
    with pytest.raises(CodeError) as error:
        await pool.run({}, 20.0)
    await pool.close()

    assert error.value.code == "OUTPUT_TOO_LARGE"


NAMES_ITSELF = """
import json, os, struct, sys
while head := sys.stdin.buffer.read(4):
    sys.stdin.buffer.read(struct.unpack(">I", head)[0])
    said = json.dumps({"pid": os.getpid()}).encode()
    sys.stdout.buffer.write(struct.pack(">I", len(said)) + said)
    sys.stdout.buffer.flush()
"""


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C16", "BI-C17")
async def test_a_process_works_for_one_workspace() -> None:
    pool = SandboxPool([sys.executable, "-I", "-S", "-c", NAMES_ITSELF], size=2)
    owners = ["a", "a", "b", "a", "b", *(f"w{number}" for number in range(8)), "a"]
    pids = [(await pool.run({}, 20.0, owner=owner))["pid"] for owner in owners]
    kept = len(pool._idle)
    await pool.close()

    of = {
        owner: {pid for each, pid in zip(owners[:5], pids, strict=False) if each == owner} for owner in "ab"
    }
    assert len(of["a"]) == len(of["b"]) == 1
    assert not of["a"] & of["b"]
    assert len(set(pids[5:])) == 9  # that of `a` has made room meanwhile
    assert kept == 8


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C02")
async def test_endless_code_of_one_workspace_does_not_hold_up_the_others() -> None:
    silent = "import time\nif b'endless' in sys.stdin.buffer.peek(): time.sleep(600)\n"
    answers = SandboxPool([sys.executable, "-I", "-S", "-c", f"import sys\n{silent}{NAMES_ITSELF}"], size=2)
    held = [asyncio.create_task(answers.run({"code": "endless"}, 60.0, owner="hostile")) for _ in range(6)]
    await until(lambda: len(answers._busy) == 2)
    pids = await asyncio.gather(*(answers.run({}, 60.0, owner=f"w{n % 4}") for n in range(12)))
    busy = len(answers._busy)
    for task in held:
        task.cancel()
    await asyncio.wait(held)
    again = await answers.run({}, 60.0, owner="hostile")
    await answers.close()

    assert len({said["pid"] for said in pids}) >= 4
    assert busy == 2  # no more than its share, however much of it waits
    assert again["pid"]


@pytest.mark.req("X2")
async def test_owners_get_places_in_turns() -> None:
    places, order, go = Places(1), [], asyncio.Event()

    async def work(owner: str, number: int) -> None:
        async with places.taken(owner):
            order.append(f"{owner}{number}")
            await go.wait()

    async with asyncio.TaskGroup() as group:
        taken = [group.create_task(work(f"held{n}", 0)) for n in range(ALL_MAX)]
        await until(lambda: len(order) == ALL_MAX)  # each owner has one
        waiting = [group.create_task(work(owner, n)) for owner in ("a", "b") for n in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        assert len(order) == len(taken)
        go.set()

    assert order[ALL_MAX:] == ["a0", "b0", "a2", "b1", "b2"]


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C24")
def test_the_probe_tells_a_jail_from_none(jailing: str) -> None:
    reached = SandboxProbe().tried()

    assert reached.safe is (jailing == "jailed"), reached


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C24")
def test_a_probe_that_cannot_try_is_not_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.sandbox.probe.jailed", lambda command: ["/bin/false"])

    assert not SandboxProbe().tried().safe
