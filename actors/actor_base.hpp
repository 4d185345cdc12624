/// The base of every actor of the node: counts its messages, and gives it the handlers that keep it alive.
#pragma once

#include "actors/actor_registry.hpp"
#include "actors/messages.hpp"

#include <caf/actor_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/message.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <spdlog/spdlog.h>

#include <exception>
#include <stdexcept>
#include <string>

namespace kcx {

/// The reason with which a supervisor ends that gives up because restarting does not help; whoever supervises it must
/// not restart it, but pass the text on. Test for it with gave_up().
inline caf::error give_up(const std::string& why) {
  const auto plain = caf::make_error(caf::exit_reason::out_of_workers);
  return caf::error{plain.code(), plain.category(), caf::make_message(why)};
}
[[nodiscard]] inline bool gave_up(const caf::error& reason) {
  return reason == caf::exit_reason::out_of_workers;
}

/// The text that an actor gave as the reason of its end; CAF's own words if it gave none.
[[nodiscard]] inline std::string text_of(const caf::error& reason) {
  // An actor that quits without a reason leaves an empty error, which must not be looked into.
  if (reason && reason.context().match_elements<std::string>())
    return reason.context().get_as<std::string>(0);
  return caf::to_string(reason);
}

/// Derive a role from `actor_base<its_interface>` and override make_behavior().
///
/// - Figures: mailbox depth, counts, busy time and "in handler since" go to the actor_registry.
/// - An error answer to an ordinary message, which by CAF's default would end the receiver, is logged and dropped.
/// - A message nobody expects is dropped and logged.
/// - A handler that throws ends the actor; its text travels in the down message to whoever monitors it.
/// - exit messages of linked actors end it; an exit message without an error asks it to stop.
///
/// on_stop() runs once, on the actor's own thread, whatever ended it: the place to answer open promises, and to let go
/// of handles to other actors: an actor's memory, and a detached one's thread, stay until the last handle to it is
/// gone, and two actors that hold each other would stay for ever.
template <class Interface>
class actor_base : public Interface::base {
public:
  using super = typename Interface::base;
  using interface_type = Interface;

  actor_base(caf::actor_config& cfg, const char* name)
    : super{cfg}, name_{name}, figures_{actor_registry::instance().add(
                                 this->id(), cfg.parent == nullptr ? 0 : cfg.parent->id(),
                                 this->getf(caf::abstract_actor::is_detached_flag))} {
    actor_registry::instance().set_name(*figures_, name);
    set_survival_handlers();
  }

  const char* name() const override { return name_; }

  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override {
    figures_->received.fetch_add(1, std::memory_order_relaxed);
    super::enqueue(std::move(what), host);
  }

  caf::invoke_message_result consume(caf::mailbox_element& what) override {
    handler_timer timer{*figures_};
    return super::consume(what);
  }

  bool cleanup(caf::error&& reason, caf::execution_unit* host) override {
    if (!stopped_) {
      stopped_ = true;
      on_stop();
      const bool in_peace = !reason || reason == caf::exit_reason::normal || reason == caf::exit_reason::user_shutdown;
      actor_registry::instance().remove(this->id(), !in_peace);
    }
    return super::cleanup(std::move(reason), host);
  }

protected:
  /// Answers what is still open. Must not throw.
  virtual void on_stop() noexcept {}

  /// The handler of fault_atom: what an ordinary bug in a handler would do.
  [[noreturn]] void fault(const std::string& text) const {
    throw std::runtime_error{std::string{name_} + ": injected fault: " + text};
  }

private:
  void set_survival_handlers() {
    const auto name = name_;
    this->set_error_handler(
      [name](caf::error& problem) { spdlog::warn("{}: dropped an error answer: {}", name, caf::to_string(problem)); });
    this->set_default_handler([name](caf::scheduled_actor*, caf::message_view& what) -> caf::result<caf::message> {
      spdlog::warn("{}: dropped an unexpected message: {}", name, caf::to_string(what.content()));
      return caf::make_error(caf::sec::unexpected_message);
    });
    this->set_exit_handler([this](caf::exit_msg& msg) { this->quit(std::move(msg.reason)); });
    this->set_exception_handler([name](caf::scheduled_actor*, std::exception_ptr& thrown) -> caf::error {
      std::string text = "unknown exception";
      try {
        std::rethrow_exception(thrown);
      } catch (const std::exception& e) {
        text = e.what();
      } catch (...) { // The text stays as it is: nothing is known of such an exception.
      }
      spdlog::error("{}: ended by an exception: {}", name, text);
      return caf::make_error(caf::sec::runtime_error, text);
    });
  }

  const char* name_;
  std::shared_ptr<actor_figures> figures_;
  bool stopped_ = false;
};

} // namespace kcx
