"""What was acknowledged is there after kill -9, whatever the moment."""
import http.client
import os
import random
import threading

import pytest


class Client(threading.Thread):
    """Submits jobs one after another until told to stop; remembers what was sent and what was acknowledged."""

    def __init__(self, node, name, limit):
        super().__init__(daemon=True)
        self.node, self.prefix, self.limit = node, name, limit
        self.sent, self.acknowledged = [], []
        self.unexpected = None

    def run(self):
        try:
            for number in range(self.limit):
                name = f"{self.prefix}-{number}"
                self.sent.append(name)
                response = self.node.submit_raw({"command": "true", "name": name})
                if response.status == 201:
                    self.acknowledged.append((response.json()["id"], name))
                elif response.status != 503:
                    self.unexpected = (response.status, response.body)
                    return
        except (OSError, http.client.HTTPException):
            pass  # the node was killed


def check(node, clients):
    stored = node.jobs()
    by_id = {job["id"]: job["name"] for job in stored}
    assert len(by_id) == len(stored), "an id is listed twice"
    names = list(by_id.values())
    assert len(set(names)) == len(names), "a submission is stored twice"
    for client in clients:
        assert client.unexpected is None, client.unexpected
        for job_id, name in client.acknowledged:
            assert by_id.get(job_id) == name, f"acknowledged job {job_id} ({name}) is {by_id.get(job_id)}"
        ids = [job_id for job_id, _ in client.acknowledged]
        assert ids == sorted(ids), "a later submission got a smaller id"
        stored_of_client = [name for _, name in sorted(by_id.items()) if name.rsplit("-", 1)[0] == client.prefix]
        assert stored_of_client == sorted(stored_of_client, key=client.sent.index), "order is lost"
    invented = set(names) - {name for client in clients for name in client.sent}
    assert not invented, f"never submitted: {invented}"


def crash_again_and_again(node, submissions, enough):
    """Rounds of four clients and one kill until enough(rounds, acknowledged); then checks what is stored."""
    seed = int(os.environ.get("KCX_SEED", random.randrange(2**32)))
    print(f"KCX_SEED={seed}")
    chance = random.Random(seed)
    clients, rounds = [], 0
    while not enough(rounds, sum(len(client.acknowledged) for client in clients)):
        batch = [Client(node, f"r{rounds}c{c}", submissions // 4) for c in range(4)]
        for client in batch:
            client.start()
        # A random moment is what is tested here: there is nothing to await.
        threading.Event().wait(chance.uniform(0, 0.25))
        node.kill9()
        for client in batch:
            client.join()
        clients += batch
        rounds += 1
        assert rounds <= 100, "hardly anything is acknowledged"
        node.start()
    check(node, clients)
    # Ahead of the thousands that wait.
    assert node.run("true", priority=100)["state"] == "succeeded"


def test_a_hundred_submissions_and_kills_at_random_moments_lose_nothing(start_node):
    crash_again_and_again(start_node(), 100, lambda rounds, acknowledged: rounds >= 3 and acknowledged >= 100)


@pytest.mark.long
def test_fifty_submissions_and_a_kill_a_hundred_times_lose_nothing(start_node):
    crash_again_and_again(start_node(), 52, lambda rounds, acknowledged: rounds >= 100)
