"""Connections between neighbors: process *i* connects to process *i + 1*, and the last one to the first.

A process offers all of its addresses, because the name of a machine need not be known to the others, or may stand for a
loopback address. The successor answers with its token before a connection counts: an address may belong to another
program, and private networks have the same addresses on several machines.

Responsible for making the connections. Does not depend on what is sent over them.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from xlapy.base.logging import logger

CONNECT_SECONDS: Final = 10.0
"""How long the processes try to connect."""

_ADDRESS_SECONDS: Final = 2.0
"""How long an address is tried."""

_TOKEN_BYTES: Final = 16

_GET_FLAGS, _GET_ADDRESS = 0x8913, 0x8915
"""`ioctl` requests of Linux: the flags and the IPv4 address of an interface."""

_UP, _LOOPBACK, _RUNNING = 0x1, 0x8, 0x40
"""Flags of an interface."""

_GLOBAL_SCOPE: Final = "00"


@dataclass(frozen=True)
class Endpoint:
    """Where a process listens. network: names the network namespace, in which loopback addresses are the same. token:
    the predecessor sends its first half and receives its second half, so that each of them knows that the other end of
    the connection is its neighbor."""

    port: int
    network: str
    hosts: tuple[str, ...]
    token: bytes = field(default_factory=lambda: secrets.token_bytes(2 * _TOKEN_BYTES), repr=False)


def connect_neighbors(
    index: int, count: int, allgather: Callable[[Any], list[Any]], network: str, hosts: tuple[str, ...]
) -> dict[socket.socket, int]:
    """Returns the connections of a process to its neighbors, with the index of each. Collective.

    allgather: returns the values that the processes give. network, hosts: see `Endpoint`; those of this process are
    `network_name()` and `own_hosts()`. Warns of a neighbor that cannot be reached.
    """
    is_local = len(set(allgather(network))) == 1
    with _listen(is_local) as server:
        own = Endpoint(server.getsockname()[1], network, hosts)
        endpoints: list[Endpoint] = allgather(own)
        deadline = time.monotonic() + CONNECT_SECONDS
        accepted: list[socket.socket] = []
        thread = threading.Thread(target=_accept, args=(server, own.token, deadline, accepted))
        thread.start()
        successor = (index + 1) % count
        connection = _connect(endpoints[successor], network, deadline)
        thread.join()
    if connection is None:
        logger.warning(
            "process %d cannot connect to process %d at port %d of %s: only time-outs notice the end of one of them",
            index,
            successor,
            endpoints[successor].port,
            ", ".join(endpoints[successor].hosts),
        )
    found = dict.fromkeys(accepted, (index - 1) % count) | ({connection: successor} if connection else {})
    for one in found:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def _listen(is_local: bool) -> socket.socket:
    if is_local:
        return socket.create_server(("127.0.0.1", 0))
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _accept(server: socket.socket, token: bytes, deadline: float, accepted: list[socket.socket]) -> None:
    """Accepts the connection of the predecessor."""
    while not accepted and (left := deadline - time.monotonic()) > 0:
        server.settimeout(left)
        try:
            connection, _ = server.accept()
        except OSError:
            return
        try:
            connection.settimeout(min(left, _ADDRESS_SECONDS))
            if hmac.compare_digest(_received(connection, _TOKEN_BYTES), token[:_TOKEN_BYTES]):
                connection.sendall(token[_TOKEN_BYTES:])
                accepted.append(connection)
                return
        except OSError:  # another program has connected, or the predecessor has given up
            pass
        connection.close()


def _connect(endpoint: Endpoint, network: str, deadline: float) -> socket.socket | None:
    """Connects to a process, which listens already, at the first of its addresses where it answers."""
    for host in ("127.0.0.1",) if endpoint.network == network else endpoint.hosts:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        try:
            connection = socket.create_connection((host, endpoint.port), timeout=min(left, _ADDRESS_SECONDS))
        except OSError:
            continue
        try:
            connection.sendall(endpoint.token[:_TOKEN_BYTES])
            if hmac.compare_digest(_received(connection, _TOKEN_BYTES), endpoint.token[_TOKEN_BYTES:]):
                return connection
        except OSError:
            pass
        connection.close()
    return None


def _received(connection: socket.socket, size: int) -> bytes:
    """Returns the next bytes, fewer than `size` if the connection ends before."""
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


# --- addresses


def network_name() -> str:
    """Names the network namespace of this process, in which loopback addresses are the same. No two of them have the
    same name, on whatever machines they are."""
    return _local_name("/proc/self/ns/net", lambda status: status.st_ino)


def memory_name() -> str:
    """Names the file system of shared memory of this process, as `network_name` does."""
    return _local_name("/dev/shm", lambda status: status.st_dev)


def _local_name(path: str, number: Callable[[os.stat_result], int]) -> str:
    """Names something of this machine by the machine and a number."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as machine:
            return f"{machine.read().strip()}, {number(os.stat(path))}"
    except OSError:
        return socket.gethostname()


def own_hosts() -> tuple[str, ...]:
    """The addresses of this machine that others may reach, and its name."""
    return (*_ipv4_addresses(), *_ipv6_addresses(), socket.gethostname())


def _ipv4_addresses() -> list[str]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                (flags,) = struct.unpack("16xH", fcntl.ioctl(probe, _GET_FLAGS, request)[:18])
                address = fcntl.ioctl(probe, _GET_ADDRESS, request)[20:24]
            except OSError:  # it has no address
                continue
            if flags & (_UP | _RUNNING) == _UP | _RUNNING and not flags & _LOOPBACK:
                found.append(socket.inet_ntoa(address))
    return found


def _ipv6_addresses() -> list[str]:
    """The global addresses; those of a link need an interface."""
    try:
        with open("/proc/net/if_inet6") as table:
            rows = [line.split() for line in table]
    except OSError:
        return []
    return [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row[3] == _GLOBAL_SCOPE]
