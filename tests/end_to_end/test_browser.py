"""Pages in a real browser: one of another origin that uses the API, as docs/http_api.md shows it, and the dashboard."""
import http.server
import queue
import re
import shutil
import signal
import subprocess
import threading

import pytest

from kcx_node import ROOT

# Tells the test what the page shows, each time that it changes.
REPORTER = """<script>
  new MutationObserver(() => fetch("/shown", {method: "POST", body: out.textContent}))
    .observe(out, {childList: true, characterData: true, subtree: true});
</script>"""


class Pages(http.server.ThreadingHTTPServer):
    """Serves one page and collects what it reports."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), PageHandler)
        self.page = ""
        self.shown = queue.Queue()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.server_port}"

    def wait_until_shown(self, text):
        seen = ""
        while text not in seen:
            seen = self.shown.get(timeout=60)
        return seen


class PageHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200 if self.path == "/" else 404, self.server.page if self.path == "/" else "")

    def do_POST(self):
        self.server.shown.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.answer(204, "")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def pages():
    server = Pages()
    yield server
    server.shutdown()
    server.server_close()


def browser_command(tmp_path):
    return [shutil.which("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}"]


@pytest.fixture
def open_page(tmp_path):
    """Opens an address in a browser that is gone when the test is."""
    browsers = []

    def open_address(address):
        # Its sandbox needs what containers and root lack; the page is the test's own.
        browsers.append(subprocess.Popen(
            [*browser_command(tmp_path), "--remote-debugging-port=0", address],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))

    yield open_address
    for browser in browsers:
        browser.send_signal(signal.SIGTERM)
        browser.wait(timeout=30)


def documented_page(api, token):
    page, = re.findall(r"^```html run\n(.*?)^```$", (ROOT / "docs/http_api.md").read_text(), re.M | re.S)
    return page.replace("http://127.0.0.1:7070", api).replace("the token", token) + REPORTER


def test_a_page_of_an_allowed_origin_submits_follows_and_reads(start_node, pages, open_page):
    node = start_node(allow_origin=pages.origin)
    token = node.post("/v1/tokens", {"name": "page", "scopes": ["read", "submit"]}, status=201)["token"]
    pages.page = documented_page(node.url, token)
    open_page(pages.origin)
    shown = pages.wait_until_shown("hello from a page")
    job, = node.jobs()
    assert f"job {job['id']} is running\njob {job['id']} is succeeded\n" in shown


def test_a_page_of_another_origin_reads_nothing(start_node, pages, open_page):
    node = start_node(allow_origin="http://127.0.0.1:1")
    pages.page = f"""<pre id="out"></pre>{REPORTER}<script type="module">
      const tell = what => out.append(what + " ");
      await fetch("{node.url}/v1/jobs", {{headers: {{Authorization: "Bearer {node.token}"}}}})
        .then(() => tell("read"), () => tell("refused"));
      await fetch("{node.url}/healthz").then(() => tell("read"), () => tell("refused"));
      tell("done");
    </script>"""
    open_page(pages.origin)
    assert pages.wait_until_shown("done").split() == ["refused", "refused", "done"]


def page_at(address, tmp_path):
    """What the page has become after its first seconds."""
    return subprocess.run([*browser_command(tmp_path), "--virtual-time-budget=3000", "--dump-dom", address],
                          capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_dashboard_shows_jobs_to_who_has_its_address(node, tmp_path):
    node.run("true", name="for-the-dashboard")
    address = node.cli("dashboard").stdout.strip()
    assert address.startswith(node.inspect + "/#code=")
    page = page_at(address, tmp_path)
    assert "Signed in as admin" in page
    assert "for-the-dashboard" in page
    # The cookie is the browser's and lasts.
    assert "for-the-dashboard" in page_at(node.inspect, tmp_path)
    # The address is used up.
    again = page_at(address, tmp_path / "another")
    assert "Not signed in: " in again and "for-the-dashboard" not in again


def test_the_dashboard_shows_no_job_without_its_address(node, tmp_path):
    node.run("true", name="for-the-dashboard")
    page = page_at(node.inspect, tmp_path)
    assert "http_bridge" in page
    assert "kcx dashboard" in page and "for-the-dashboard" not in page
