"""Fixtures of the end-to-end tests: nodes that are gone when the test is, and a time limit for every test."""
import os
import signal

import pytest

from kcx_node import BUILD, Node


def pytest_sessionstart(session):
    # A run that a script started in the background ignores SIGINT, and so would all that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    missing = [name for name in ("kcx-node", "kcx-runner", "kcx") if not (BUILD / name).is_file()]
    if missing and not session.config.option.collectonly:
        raise pytest.UsageError(f"{', '.join(missing)} missing in {BUILD}: run scripts/build first")


@pytest.fixture(autouse=True)
def time_limit(request):
    """Ends a test that hangs, with the line it hangs in."""
    seconds = 1800 if request.node.get_closest_marker("long") else 150

    def too_slow(_signal, _frame):
        raise TimeoutError(f"the test took more than {seconds} s")

    signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(seconds)
    yield
    signal.alarm(0)


@pytest.fixture
def make_node(tmp_path):
    """Makes nodes that are not started yet. Their output is printed when the test fails."""
    made = []

    def make(**options):
        node = Node(tmp_path / f"node{len(made) + 1}", **options)
        made.append(node)
        return node

    yield make
    for node in made:
        node.clean_up()
        print(f"-- output of {node.directory.name} " + "-" * 50)
        print(node.output()[-8000:])


@pytest.fixture
def start_node(make_node):
    """Starts a node with options as keywords: start_node(slots=1, fault_injection=True)."""
    return lambda **options: make_node(**options).start()


@pytest.fixture
def node(start_node):
    """A running node with two slots and all defaults."""
    return start_node()


@pytest.fixture
def fifo(tmp_path):
    """A named pipe a job can wait on: `read x < PATH` in the job, fifo.release() in the test."""
    class Fifo:
        path = str(tmp_path / "gate")

        def release(self):
            with open(self.path, "w", encoding="ascii") as gate:
                gate.write("go\n")

    os.mkfifo(Fifo.path)
    return Fifo()
