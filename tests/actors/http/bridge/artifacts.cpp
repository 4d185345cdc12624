#define CAF_SUITE bridge_artifacts
#include "actors/http/artifacts/artifact_answer.hpp"
#include "caf/test/unit_test.hpp"
#include "storage/artifact_path.hpp"
#include "tests/actors/http/bridge/harness.hpp"
#include "tests/support/files.hpp"

#include <filesystem>

using namespace kcx;
using namespace kcx::test;
namespace fs = std::filesystem;

namespace {

/// A bridge over a directory with what attempt 2 of job 7 kept.
struct kept {
  temp_dir dir;
  bridge_harness bridge{dir.path()};
  fs::path root = artifacts_path(dir.path(), 7, 2);

  kept() {
    bridge.node.jobs[7] = some_job(7, job_state::succeeded, 2);
    bridge.node.log_bytes[{{7}, 1}] = 0;
    bridge.node.log_bytes[{{7}, 2}] = 0;
    fs::create_directories(root / "dist/sub");
    write_file(root / "dist/app.txt", "0123456789");
    write_file(root / "dist/sub/page.html", "<p>");
    write_file(root / "report", "r");
    write_file(dir / "outside", "secret");
    fs::create_symlink(dir / "outside", root / "link");
  }

  auto get(const std::string& path, std::vector<std::pair<std::string, std::string>> headers = {}) {
    return bridge.ask("GET", "/v1/jobs/7/artifacts" + path, {"", std::move(headers)});
  }
};

std::string all(bridge_answer& result) {
  return result.answer ? body_reader{*result.answer}.take() : std::string{};
}

std::string paths(bridge_answer& result) {
  std::string text;
  for (const auto& item : result.json()["items"])
    text += item["path"].get<std::string>() + ' ';
  return text;
}

} // namespace

CAF_TEST(the listing names every file with its size) {
  kept k;
  const auto listing = k.get("");
  CAF_REQUIRE_EQUAL(listing->status(), 200u);
  CAF_CHECK_EQUAL(listing->json()["job"], 7);
  CAF_CHECK_EQUAL(listing->json()["attempt"], 2);
  CAF_CHECK_EQUAL(paths(*listing), "dist/app.txt dist/sub/page.html report ");
  CAF_CHECK_EQUAL(listing->json()["items"][0]["bytes"], 10);
  CAF_CHECK(listing->json()["items"][0]["modified_at"].get<std::string>().ends_with("Z"));
}

CAF_TEST(a directory is listed with what is below it) {
  kept k;
  const auto listing = k.get("/dist/");
  CAF_CHECK_EQUAL(listing->json()["path"], "dist");
  CAF_CHECK_EQUAL(paths(*listing), "dist/app.txt dist/sub/page.html ");
  CAF_CHECK_EQUAL(paths(*k.get("/dist/sub")), "dist/sub/page.html ");
}

CAF_TEST(a job that kept nothing has an empty listing and no files) {
  kept k;
  const auto listing = k.get("?attempt=1");
  CAF_CHECK_EQUAL(listing->status(), 200u);
  CAF_CHECK(listing->json()["items"].empty());
  CAF_CHECK_EQUAL(k.get("/report?attempt=1")->status(), 404u);
  CAF_CHECK_EQUAL(k.get("?attempt=x")->code(), "invalid_parameter");
}

CAF_TEST(a file is sent with its type and as nothing a browser would run) {
  kept k;
  const auto file = k.get("/dist/app.txt");
  CAF_CHECK_EQUAL(file->header("Content-Type"), "text/plain; charset=utf-8");
  CAF_CHECK_EQUAL(file->answer->stream->size().value_or(0), 10u);
  CAF_CHECK_EQUAL(all(*file), "0123456789");
  const auto page = k.get("/dist/sub/page.html");
  CAF_CHECK(page->header("Content-Security-Policy").starts_with("sandbox;"));
  CAF_CHECK_EQUAL(page->header("X-Content-Type-Options"), "nosniff");
  CAF_CHECK_EQUAL(k.get("/report")->header("Content-Type"), "application/octet-stream");
  CAF_CHECK_EQUAL(std::string{http::content_type_of("A.PNG")}, "image/png");
}

CAF_TEST(a part of a file is sent as 206) {
  kept k;
  const auto part = k.get("/dist/app.txt", {{"Range", "bytes=2-4"}});
  CAF_CHECK_EQUAL(part->status(), 206u);
  CAF_CHECK_EQUAL(part->header("Content-Range"), "bytes 2-4/10");
  CAF_CHECK_EQUAL(all(*part), "234");
  const auto beyond = k.get("/dist/app.txt", {{"Range", "bytes=10-"}});
  CAF_CHECK_EQUAL(beyond->status(), 416u);
  CAF_CHECK_EQUAL(beyond->header("Content-Range"), "bytes */10");
}

CAF_TEST(a file that is known already is not sent again) {
  kept k;
  const auto etag = k.get("/dist/app.txt")->header("ETag");
  CAF_CHECK_EQUAL(etag, "\"7-2-10\"");
  CAF_CHECK_EQUAL(k.get("/dist/app.txt", {{"If-None-Match", etag}})->status(), 304u);
  CAF_CHECK_EQUAL(k.get("/dist/app.txt", {{"Range", "bytes=2-4"}, {"If-Range", "\"old\""}})->status(), 200u);
}

CAF_TEST(no path leads out of the artifacts) {
  kept k;
  for (const auto* path :
       {"/link", "/../../outside", "/%2e%2e/%2e%2e/outside", "//etc/passwd", "/dist/../../7-2/report", "/no/such"}) {
    CAF_MESSAGE(path);
    CAF_CHECK_EQUAL(k.get(path)->status(), 404u);
  }
}

CAF_TEST(what a removed job kept is gone) {
  kept k;
  const auto missing = k.bridge.ask("GET", "/v1/jobs/8/artifacts");
  CAF_CHECK_EQUAL(missing->status(), 404u);
}
