"""A page in a real browser uses the API from another origin, as docs/http_api.md shows it."""
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


@pytest.fixture
def open_page(tmp_path):
    """Opens an address in a browser that is gone when the test is."""
    browsers = []

    def open_address(address):
        # Its sandbox needs what containers and root lack; the page is the test's own.
        browsers.append(subprocess.Popen(
            [shutil.which("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}", "--remote-debugging-port=0", address],
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
