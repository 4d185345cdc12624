#include "actors/http/server/server.hpp"

#include "actors/http/server/server_core.hpp"
#include "actors/http/server/session.hpp"
#include "actors/http/server/tls_context.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <utility>

namespace kcx::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);
// Sessions beyond the limit that only tell their client so; further ones are closed without a word.
constexpr std::size_t refused_sessions = 64;
constexpr int accepts_per_turn = 64;
// Out of descriptors: the next try. Connections wait in the kernel's queue meanwhile.
constexpr auto accept_pause = std::chrono::milliseconds{100};

std::string host_text(const asio::ip::address& address) {
  return address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
}

// Set on the listener, inherited by what it accepts: no delay for small responses, and probes that find out within
// two minutes that a silent client has vanished.
void set_options(int listener) {
  const std::pair<std::pair<int, int>, int> values[] = {
    {{SOL_SOCKET, SO_KEEPALIVE}, 1},    {{IPPROTO_TCP, TCP_NODELAY}, 1}, {{IPPROTO_TCP, TCP_KEEPIDLE}, 60},
    {{IPPROTO_TCP, TCP_KEEPINTVL}, 15}, {{IPPROTO_TCP, TCP_KEEPCNT}, 4},
  };
  for (auto [option, value] : values)
    ::setsockopt(listener, option.first, option.second, &value, sizeof value);
}

} // namespace

class server::impl {
public:
  impl(server_options options, handler handle)
    : core{std::make_shared<server_core>(std::move(options), std::move(handle))}, acceptor{core->io}, sweep{core->io},
      guard{core->io.get_executor()} {}

  outcome listen();
  void run();
  void close_listener();
  void finish(std::chrono::milliseconds grace);
  outcome load_certificate();

  std::shared_ptr<server_core> core;
  tcp::acceptor acceptor;
  asio::steady_timer sweep;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> guard;
  std::shared_ptr<asio::ssl::context> tls;
  tcp::endpoint bound;
  std::thread thread;
  std::mutex stopping;

private:
  asio::awaitable<void> accept_loop();
  bool accept_some();
  void admit(int descriptor, const sockaddr_storage& from);
  void start_sweep();
  void on_sweep();
  void look_for_vanished_clients();
  void on_session_end();

  std::mutex mutex_;
  std::condition_variable empty_changed_;
  bool empty_ = true;
  std::uint64_t last_session_ = 0;
  bool sweeping_ = false;
  bool stopped_ = false;
};

// -- listening ---------------------------------------------------------------

outcome server::impl::listen() {
  const auto& options = core->options;
  error_code ec;
  auto address = asio::ip::make_address(options.address, ec);
  if (ec)
    return error{ec::invalid_setting, "\"" + options.address + "\" is not a numeric IPv4 or IPv6 address", {}};
  tcp::endpoint wanted{address, options.port};
  // Not asio's constructor: the descriptor must carry close-on-exec from its birth, jobs are forked at any moment.
  int descriptor = ::socket(wanted.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
  if (descriptor < 0)
    ec.assign(errno, boost::system::system_category());
  else
    acceptor.assign(wanted.protocol(), descriptor, ec);
  if (!ec)
    acceptor.set_option(tcp::acceptor::reuse_address{true}, ec);
  if (!ec)
    acceptor.bind(wanted, ec);
  if (!ec) {
    set_options(descriptor);
    acceptor.listen(asio::socket_base::max_listen_connections, ec);
  }
  if (!ec)
    acceptor.non_blocking(true, ec);
  if (ec)
    return error{ec::system_failed,
                 "cannot listen on " + host_text(address) + ":" + std::to_string(options.port) + ": " + ec.message() +
                   (ec == asio::error::address_in_use ? "; another program, perhaps another node, listens there" : ""),
                 {}};
  bound = acceptor.local_endpoint();
  core->hosts.emplace(host_policy::settings{address.is_loopback(), options.tls.has_value(), bound.port(),
                                            options.allowed_hosts, options.allowed_origins});
  return done{};
}

outcome server::impl::load_certificate() {
  if (!core->options.tls)
    return done{};
  auto context = load_tls_context(*core->options.tls);
  if (!context)
    return std::move(context).error();
  asio::post(core->io, [this, context = *std::move(context)] { tls = context; });
  return done{};
}

void server::impl::run() {
  core->io_thread = std::this_thread::get_id();
  asio::co_spawn(core->io, accept_loop(), [](std::exception_ptr) {});
  for (;;) {
    try {
      core->io.run();
      return;
    } catch (const std::exception& e) {
      // From a callback of the options or a posted piece of work: the connections are not to blame.
      core->warn(std::string{"a callback on the HTTP thread threw: "} + e.what());
    }
  }
}

asio::awaitable<void> server::impl::accept_loop() {
  asio::steady_timer pause{core->io};
  while (acceptor.is_open()) {
    auto [ec] = co_await acceptor.async_wait(tcp::acceptor::wait_read, as_result);
    if (!acceptor.is_open())
      co_return;
    if (!ec && accept_some())
      continue;
    count(core->stats.accept_failures);
    core->warn(std::string{"cannot accept connections, will try again: "} + std::strerror(errno));
    pause.expires_after(accept_pause);
    co_await pause.async_wait(as_result);
  }
}

// Takes what waits in the kernel's queue. False if the system cannot give more now: out of descriptors or memory.
bool server::impl::accept_some() {
  for (int i = 0; i < accepts_per_turn; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    int descriptor = ::accept4(acceptor.native_handle(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC);
    if (descriptor >= 0) {
      admit(descriptor, from);
      continue;
    }
    switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM: return false;
    case EAGAIN: return true;
    // Everything else is a connection that died in the queue.
    default: break;
    }
  }
  return true;
}

void server::impl::admit(int descriptor, const sockaddr_storage& from) {
  tcp::endpoint peer;
  std::memcpy(peer.data(), &from, std::min(peer.capacity(), sizeof from));
  tcp::socket socket{core->io};
  error_code ec;
  socket.assign(bound.protocol(), descriptor, ec);
  if (ec) {
    ::close(descriptor);
    return;
  }
  auto limit = core->options.limits.connections;
  bool refused = core->sessions.size() >= limit;
  count(refused ? core->stats.refused : core->stats.accepted);
  if (core->sessions.size() >= limit + refused_sessions)
    return;
  auto stream = tls ? make_tls_transport(std::move(socket), tls) : make_plain_transport(std::move(socket));
  auto next = std::make_shared<session>(core, std::move(stream),
                                        session::peer{++last_session_, peer.address().to_string(), refused});
  {
    std::lock_guard lock{mutex_};
    empty_ = false;
  }
  start_sweep();
  asio::co_spawn(
    core->io, [next] { return next->run(); },
    [this](std::exception_ptr failure) {
      if (failure)
        core->warn("a connection ended by an exception");
      // The coroutine, and with it the session, is destroyed after this.
      asio::post(core->io, [this] { on_session_end(); });
    });
}

// -- sweep -------------------------------------------------------------------

void server::impl::start_sweep() {
  if (std::exchange(sweeping_, true))
    return;
  on_sweep();
}

// One timer for all sessions; none while there is no session, so an idle node does not wake up.
void server::impl::on_sweep() {
  if (core->sessions.empty() || stopped_) {
    sweeping_ = false;
    return;
  }
  const auto& t = core->options.timeouts;
  auto shortest = std::min({t.header, t.body, t.idle, t.write, t.linger});
  auto pause = std::clamp(shortest / 4, std::chrono::milliseconds{10}, std::chrono::milliseconds{1000});
  look_for_vanished_clients();
  auto now = clock::now();
  for (auto& [id, each] : core->sessions)
    each->tick(now);
  sweep.expires_after(pause);
  sweep.async_wait([this](error_code) { on_sweep(); });
}

// A session that waits for the handler neither reads nor writes, so a reset shows only here. A half-closed
// connection is none: its client may still read, and whoever made the handler decides how long it may wait.
void server::impl::look_for_vanished_clients() {
  std::vector<pollfd> watched;
  std::vector<session*> owners;
  for (auto& [id, each] : core->sessions) {
    if (int descriptor = each->watched_descriptor(); descriptor >= 0) {
      watched.push_back({descriptor, POLLRDHUP, 0});
      owners.push_back(each);
    }
  }
  if (watched.empty() || ::poll(watched.data(), watched.size(), 0) <= 0)
    return;
  for (std::size_t i = 0; i < watched.size(); ++i) {
    if ((watched[i].revents & (POLLERR | POLLHUP)) != 0)
      owners[i]->abort();
    else if ((watched[i].revents & POLLRDHUP) != 0)
      owners[i]->sends_no_more();
  }
}

// -- stopping ----------------------------------------------------------------

void server::impl::on_session_end() {
  if (!core->sessions.empty())
    return;
  {
    std::lock_guard lock{mutex_};
    empty_ = true;
  }
  empty_changed_.notify_all();
}

void server::impl::close_listener() {
  asio::post(core->io, [this] {
    error_code ignored;
    acceptor.close(ignored);
    core->draining = true;
    for (auto& [id, each] : core->sessions)
      each->drain();
  });
}

void server::impl::finish(std::chrono::milliseconds grace) {
  std::lock_guard only_one{stopping};
  if (!thread.joinable())
    return;
  close_listener();
  // After that post has run no session can be added, so "empty" is final.
  std::promise<void> closed;
  asio::post(core->io, [&] { closed.set_value(); });
  closed.get_future().wait();
  {
    std::unique_lock lock{mutex_};
    empty_changed_.wait_for(lock, grace, [this] { return empty_; });
  }
  asio::post(core->io, [this] {
    for (auto& [id, each] : core->sessions)
      each->abort();
    stopped_ = true;
    sweep.cancel();
    guard.reset();
  });
  thread.join();
  // What the handler holds may hold responders, and those the core: cut the circle.
  core->handle = nullptr;
  core->options.admit = nullptr;
  core->options.turn_ended = nullptr;
  core->options.abandoned = nullptr;
}

// -- server ------------------------------------------------------------------

server::server(std::shared_ptr<impl> state) : impl_{std::move(state)} {}

server::~server() {
  stop(std::chrono::milliseconds{0});
}

expected<std::unique_ptr<server>> server::start(server_options options, handler handle) {
  auto state = std::make_shared<impl>(std::move(options), std::move(handle));
  if (auto loaded = state->load_certificate(); !loaded)
    return std::move(loaded).error();
  if (auto listening = state->listen(); !listening)
    return std::move(listening).error();
  state->thread = std::thread{[raw = state.get()] { raw->run(); }};
  return std::unique_ptr<server>{new server{std::move(state)}};
}

std::string server::address() const {
  return host_text(impl_->bound.address()) + ":" + std::to_string(port());
}

std::uint16_t server::port() const {
  return impl_->bound.port();
}

std::string server::url() const {
  return (impl_->core->options.tls ? "https://" : "http://") + address();
}

void server::stop_listening() {
  impl_->close_listener();
}

void server::stop(std::chrono::milliseconds grace) {
  impl_->finish(grace);
}

outcome server::reload_tls() {
  return impl_->load_certificate();
}

server_stats server::stats() const {
  const auto& c = impl_->core->stats;
  return {c.open,          c.accepted,      c.refused,  c.accept_failures, c.requests,
          c.responses_4xx, c.responses_5xx, c.timeouts, c.bytes_in,        c.bytes_out};
}

void server::post(std::function<void()> work) {
  asio::post(impl_->core->io, std::move(work));
}

} // namespace kcx::http
