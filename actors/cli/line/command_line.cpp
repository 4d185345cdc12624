#include "actors/cli/line/command_line.hpp"

#include "actors/cli/exit_code.hpp"
#include "actors/cli/line/job_options.hpp"
#include "actors/cli/line/option_kinds.hpp"
#include "actors/cli/view/text.hpp"
#include "config/manual_page.hpp"
#include "config/units.hpp"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

namespace kcx::cli {

namespace {

std::vector<manual_section> manual_sections() {
  manual_section codes{"EXIT STATUS", {}};
  for (const auto& [code, meaning] : exit_code_table())
    codes.entries.emplace_back(code, meaning);
  return {
    codes,
    {"ENVIRONMENT",
     {{"KCX_DATA, KCX_URL, KCX_TOKEN, KCX_CA_FILE", "Where the node is and the token for it, unless options say so."},
      {"NO_COLOR", "Not empty: no colours. There are none but on a terminal."}}},
    {"FILES",
     {{"DIR/node.json", "Where the node of the data directory listens."},
      {"DIR/admin.token", "The token of its administrator."}}}};
}

void add_global_options(CLI::App& app, invocation& to) {
  app.set_version_flag("--version", "kcx " KCX_VERSION, "Print the version and exit");
  app
    .add_option_function<std::string>(
      "-d,--data", [&to](const std::string& text) { to.where.data = text; },
      "Data directory of the node, which tells address and token [$KCX_DATA, ./kcx-data]")
    ->type_name("DIR");
  app.add_flag_callback(
    "--man", [&app] { throw CLI::CallForVersion(manual_page(app, manual_sections()), 0); },
    "Print the manual page (for man -l -) and exit");
  add_text(app, "-u,--url", "URL", to.where.url, "Address of the node [$KCX_URL]");
  add_text(app, "--token-file", "FILE", to.where.token_file, "File that holds the token");
  add_text(app, "--token", "TOKEN", to.where.token,
           "The token; other processes can see it here, so prefer a file [$KCX_TOKEN]");
  add_text(app, "--ca-file", "FILE", to.where.ca_file, "Authorities to trust for https [$KCX_CA_FILE, the system's]");
  app.add_flag("--json", to.json, "Print what the API answers as JSON");
  app.add_flag("--quiet", to.quiet, "No progress on standard error");
  add_duration(app, "--patience", to.patience, "How long to try to reach a node that went away [1m]");
}

CLI::App& add_command(CLI::App& to, invocation& into, const char* name, verb what, const char* description) {
  auto* command = to.add_subcommand(name, description);
  command->fallthrough();
  command->callback([&into, what] { into.what = what; });
  return *command;
}

constexpr auto run_footer =
  "The command stands after \"--\" and reaches the job word for word:\n"
  "  kcx run --name build --time-limit 30m -- make -j4 all\n"
  "Exit code: the command's own; 128+N for signal N; 1 failed without a code; 124 timed out; 130 cancelled;\n"
  "75 interrupted; 76 skipped. 2 wrong usage, 3 the node cannot be reached, 4 the node refused.\n"
  "Ctrl-C cancels the job; a second one leaves without waiting for its end.";

void add_artifact_command(CLI::App& app, invocation& to) {
  auto& artifacts = add_command(app, to, "artifacts", verb::artifacts, "List what a job kept, or copy it here");
  add_ids(artifacts, to.ids, false);
  artifacts.add_option("PATH", to.artifacts.paths, "Only this file, or what is below this directory; may be repeated")
    ->type_name("");
  add_text(artifacts, "--download", "DIR", to.artifacts.directory,
           "Copy the files into DIR; files of their names are replaced");
  add_number(artifacts, "--attempt", to.log.attempt, "Those of this attempt; the latest unless given", 1, INT32_MAX,
             "a number from 1");
  artifacts.footer("A PATH that begins with \"-\" stands after \"--\": kcx artifacts 12 -- -x.log");
}

/// Both at once could mean either of two sets of jobs.
void require_ids_or_filter(const invocation& to, const char* command, const std::string& filter) {
  if (to.all && to.list.given())
    throw CLI::ValidationError(command, "give either --all or options that say which, not both");
  const bool filtered = to.list.given() || to.all;
  if (to.ids.empty() && !filtered)
    throw CLI::ValidationError(command, "give numbers of jobs, or " + filter);
  if (!to.ids.empty() && filtered)
    throw CLI::ValidationError(command, "give either numbers of jobs or " + filter + ", not both");
}

void add_job_commands(CLI::App& app, invocation& to) {
  auto& run = add_command(app, to, "run", verb::run, "Submit a job or a pipeline, follow it and exit with its code");
  add_job_options(run, to.job);
  add_submission_options(run, to);
  add_run_options(run, to.run);
  run.footer(run_footer);
  auto& submit = add_command(app, to, "submit", verb::submit, "Submit a job or a pipeline and print the numbers");
  add_job_options(submit, to.job);
  add_submission_options(submit, to);
  submit.footer("The command stands after \"--\". Of several jobs in a file all are taken, or none.");
  add_ids(add_command(app, to, "status", verb::status, "Show a job: state, steps, history"), to.ids, true);

  auto& logs = add_command(app, to, "logs", verb::logs, "Print the log of a job");
  add_ids(logs, to.ids, false);
  logs.add_flag("-f,--follow", to.log.follow, "Go on until the job is final");
  add_number(logs, "--attempt", to.log.attempt, "Log of this attempt; the latest unless given", 1, INT32_MAX,
             "a number from 1");
  add_number(logs, "--tail", to.log.tail, "Only the last N lines", 0, INT32_MAX, "a number of lines");
  logs.add_flag("--timestamps", to.log.timestamps, "Put the time before each line");

  auto& wait =
    add_command(app, to, "wait", verb::wait, "Wait until jobs are final; exit with the first code that is not 0");
  add_ids(wait, to.ids, true);
  add_duration(wait, "--timeout", to.timeout, "Give up after this long, with exit code 3");
  add_artifact_command(app, to);
  auto& cancel = add_command(app, to, "cancel", verb::cancel, "Cancel jobs, by number or all that match");
  add_ids(cancel, to.ids, true, false);
  add_filter(cancel, to.list);
  cancel.callback([&to] {
    to.what = verb::cancel;
    require_ids_or_filter(to, "cancel", "options that say which");
  });
}

CLI::App& add_group(CLI::App& app, const char* name, const char* description) {
  auto* group = app.add_subcommand(name, description);
  group->fallthrough();
  group->require_subcommand(1);
  return *group;
}

void add_queue_commands(CLI::App& app, invocation& to) {
  auto& retry = add_command(app, to, "retry", verb::retry, "Submit final jobs again, as new ones");
  add_ids(retry, to.ids, true);
  add_secret_options(retry, to.job);
  add_ids(add_command(app, to, "remove", verb::remove, "Forget final jobs and their logs"), to.ids, true);
  add_ids(add_command(app, to, "why", verb::why, "Tell what holds a job back"), to.ids, true);
  auto& change = add_command(app, to, "change", verb::change, "Change jobs that wait");
  add_ids(change, to.ids, true);
  add_number(change, "--priority", to.job.priority, "From -100 to 100");
  add_text(change, "--run-at", "TIME", to.job.run_at, "Not before this time; \"now\" for as soon as it can");
  add_texts(change, "-l,--label", "LABEL", to.job.labels, "Run only on workers that have LABEL, instead of the former");
  change.callback([&to] {
    to.what = verb::change;
    if (!to.job.priority && !to.job.run_at && to.job.labels.empty())
      throw CLI::ValidationError("change", "give what is to change: --priority, --run-at or --label");
  });

  auto& dead = add_group(app, "dead-letters", "Jobs that failed after the last of several attempts");
  auto& list = add_command(dead, to, "list", verb::dead_letters_list, "List them, newest first");
  add_list_options(list, to.list);
  for (const auto& [name, what, description] :
       {std::tuple{"requeue", verb::dead_letters_requeue, "Submit them again, as new jobs"},
        {"discard", verb::dead_letters_discard, "Take them from the list"}}) {
    auto& command = add_command(dead, to, name, what, description);
    add_ids(command, to.ids, true, false);
    add_filter(command, to.list);
    command.add_flag("--all", to.all, "All of them");
    command.callback([&to, what = what, name = name] {
      to.what = what;
      require_ids_or_filter(to, name, "--state, --project, --queue, --name, --label or --group, or --all");
    });
  }

  add_command(app, to, "queues", verb::queues, "Show queues with unfinished jobs, and paused ones");
  add_name(add_command(app, to, "pause", verb::pause, "Start no more jobs of a queue"), "QUEUE", "Name of the queue",
           to.names);
  add_name(add_command(app, to, "resume", verb::resume, "Start jobs of a queue again"), "QUEUE", "Name of the queue",
           to.names);
  add_command(app, to, "workers", verb::workers, "Show the workers and what they do");
  add_name(add_command(app, to, "cordon", verb::cordon, "Give a worker no more jobs"), "WORKER",
           "Name of the worker, as node/1", to.names);
  add_name(add_command(app, to, "uncordon", verb::uncordon, "Give a worker jobs again"), "WORKER",
           "Name of the worker, as node/1", to.names);
}

/// --job: only what is about this one.
void add_job_filter(CLI::App& to, std::vector<std::int64_t>& ids) {
  add_value(
    to, "--job", "ID", "Only this job", ids,
    [](const std::string& text) -> std::optional<std::vector<std::int64_t>> {
      const auto id = parse_number(text, 1, INT64_MAX);
      return id ? std::optional{std::vector{*id}} : std::nullopt;
    },
    "the number of a job");
}

void add_project(CLI::App& to, invocation& into) {
  refuse_empty(to.add_option("PROJECT", into.webhook.project, "Name of the project")->type_name("")->required(),
               "PROJECT");
}

void add_webhook_commands(CLI::App& app, invocation& to) {
  auto& webhook = add_group(app, "webhook", "Addresses that are told how the jobs of a project went");
  auto& set = add_command(webhook, to, "set", verb::webhook_set, "Tell a project's jobs to an address from now on");
  add_project(set, to);
  refuse_empty(
    set.add_option("URL", to.webhook.url, "Where to, as https://ci.example.org/hook")->type_name("")->required(),
    "URL");
  add_text(set, "--secret-file", "FILE", to.webhook.secret_file,
           "File with the secret that signs what is sent; - for standard input");
  add_texts(set, "-e,--event", "STATE", to.webhook.events, "Tell of this state; the final ones unless given");
  add_command(webhook, to, "list", verb::webhook_list, "List those of all projects, without their secrets");
  add_project(add_command(webhook, to, "remove", verb::webhook_remove, "Tell a project's jobs no more"), to);

  auto& deliveries = add_group(app, "deliveries", "What webhooks were told");
  auto& list = add_command(deliveries, to, "list", verb::deliveries_list, "List deliveries, newest first");
  add_job_filter(list, to.ids);
  add_choice(list, "--state", "STATE", to.webhook.state, {"pending", "delivered", "failed"},
             "Only those in this state");
  add_value(
    list, "--limit", "N", "At most N deliveries [50]", to.list.limit,
    [](const std::string& text) { return parse_number(text, 1, 1'000); }, "a whole number from 1 to 1000");
  add_ids(add_command(deliveries, to, "redeliver", verb::deliveries_redeliver, "Send deliveries again"), to.ids, true,
          true, "delivery, which \"kcx deliveries list\" shows");
}

void add_token_commands(CLI::App& app, invocation& to) {
  auto& token = add_group(app, "token", "Tokens: who may call the node");
  auto& create = add_command(token, to, "create", verb::token_create, "Make a token and print it, this once");
  refuse_empty(create.add_option("NAME", to.token.name, "What it is for; unique")->type_name("")->required(), "NAME");
  add_texts(create, "-s,--scope", "SCOPE", to.token.scopes, "What it allows: read, submit, work, cancel or admin")
    ->required()
    ->check(CLI::IsMember({"read", "submit", "work", "cancel", "admin"}));
  add_lifetime(create, "--expires-in", to.token.expires_in, "It ends after this long; never unless given");
  add_number(create, "--rate-limit", to.token.rate_limit, "Requests per minute", 1, 1'000'000,
             "a whole number from 1 to 1000000");
  add_command(token, to, "list", verb::token_list, "List the tokens, without what they are");
  add_ids(add_command(token, to, "revoke", verb::token_revoke, "Revoke tokens: they are refused at once"), to.ids, true,
          true, "token, which \"kcx token list\" shows");
}

void add_event_command(CLI::App& app, invocation& to) {
  auto& events = add_command(app, to, "events", verb::events, "Follow the state changes of all jobs");
  add_text(events, "-p,--project", "NAME", to.list.project, "Only jobs of this project");
  add_text(events, "-q,--queue", "NAME", to.list.queue, "Only jobs of this queue");
  add_job_filter(events, to.ids);
  events.footer(
    "Goes on until it is interrupted, and after a lost connection where it was. --json: one object a line.");
}

void add_other_commands(CLI::App& app, invocation& to) {
  auto& list = add_command(app, to, "list", verb::list, "List jobs, newest first");
  add_list_options(list, to.list);

  add_command(app, to, "dashboard", verb::dashboard, "Print an address that opens the dashboard with your rights")
    .footer(
      "It ends in a code that works once, within a minute. The browser is then signed in for 12 hours, on the API,\n"
      "too; what it may do is what the token of this command may do.");
  auto& node = add_group(app, "node", "The node itself");
  add_command(node, to, "status", verb::node_status, "Show the node, its workers and how many jobs are in which state");
  add_command(node, to, "drain", verb::node_drain, "Take no new jobs, let running ones end, then stop the node");
  auto& slots = add_command(node, to, "slots", verb::node_slots, "Change how many jobs run at the same time");
  add_number(slots, "N", to.slots, "Number of slots", 1, 1'024, "a whole number from 1 to 1024")
    ->type_name("")
    ->required();

  auto& backup =
    add_command(node, to, "backup", verb::node_backup,
                "Copy the data directory of a node, running or not, so that one can be started on the copy");
  refuse_empty(backup.add_option("TARGET", to.backup.target, "Directory to make, outside of the data directory")
                 ->type_name("")
                 ->required(),
               "TARGET");
  backup.add_flag("--no-logs", to.backup.no_logs, "Leave the logs of jobs out");
  backup.add_flag("--no-artifacts", to.backup.no_artifacts, "Leave the artifacts of jobs out");
  add_command(node, to, "doctor", verb::node_doctor, "Look for what is wrong around a node, and tell what to do");

  auto& completion = add_command(app, to, "completion", verb::completion, "Print a completion script for a shell");
  completion.add_option("SHELL", to.shell, "bash, zsh or fish")
    ->type_name("")
    ->required()
    ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion.footer("bash:  eval \"$(kcx completion bash)\"\n"
                    "zsh:   kcx completion zsh > \"${fpath[1]}/_kcx\"\n"
                    "fish:  kcx completion fish > ~/.config/fish/completions/kcx.fish");
}

/// What stands behind "--" is no argument that CLI11 knows of.
class usage_formatter : public CLI::Formatter {
public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    auto line = CLI::Formatter::make_usage(app, std::move(name));
    if (app->get_name() == "run" || app->get_name() == "submit")
      line.insert(line.find_last_not_of('\n') + 1, " [-- COMMAND...]");
    return line;
  }
};

std::unique_ptr<CLI::App> make_app(invocation& to) {
  auto app = std::make_unique<CLI::App>("kcx: submit CI/CD jobs to a kcx-node and follow them.\n", "kcx");
  app->formatter(std::make_shared<usage_formatter>()); // before the subcommands, which take it over
  app->set_help_flag("-h,--help", "Print this help and exit");
  app->get_formatter()->column_width(32);
  app->require_subcommand(1);
  add_global_options(*app, to);
  add_job_commands(*app, to);
  add_queue_commands(*app, to);
  add_webhook_commands(*app, to);
  add_token_commands(*app, to);
  add_event_command(*app, to);
  add_other_commands(*app, to);
  app->footer("Options above may also stand after a subcommand; \"kcx SUBCOMMAND --help\" tells its own.");
  return app;
}

/// The subcommand that was being read.
const CLI::App& chosen(const CLI::App& app) {
  const auto* at = &app;
  while (!at->get_subcommands().empty())
    at = at->get_subcommands().front();
  return *at;
}

/// Its words, for "kcx run --help".
std::string chosen_path(const CLI::App& app) {
  std::string path = "kcx";
  for (const auto* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    path += ' ' + at->get_name();
  }
  return path;
}

error wrong(const CLI::App& app, std::string message) {
  return {ec::invalid_setting, std::move(message) + "\n\"" + chosen_path(app) + " --help\" tells more", {}};
}

void summarize(const CLI::App& app, const std::string& path, std::vector<command_summary>& into) {
  command_summary summary{path, app.get_description(), {}, false};
  for (const auto* option : app.get_options()) {
    option_summary each{{}, option->get_description(), option->get_expected_min() > 0, path};
    for (const auto& name : option->get_snames())
      each.names.push_back("-" + name);
    for (const auto& name : option->get_lnames())
      each.names.push_back("--" + name);
    const auto argument = option->get_positional() ? option->get_name(true) : std::string{};
    summary.takes_file = summary.takes_file || argument == "FILE" || argument == "TARGET";
    if (!each.names.empty())
      summary.options.push_back(std::move(each));
  }
  into.push_back(std::move(summary));
  for (const auto* child : app.get_subcommands([](const CLI::App*) { return true; }))
    summarize(*child, path.empty() ? child->get_name() : path + ' ' + child->get_name(), into);
}

} // namespace

expected<invocation> parse_command_line(const std::vector<std::string>& arguments) {
  invocation to;
  auto app = make_app(to);
  // Everything behind "--" belongs to the job: CLI11 must not see it, it would take words like "[a,b]" apart.
  auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> own{std::reverse_iterator{dashes}, arguments.rend()};
  try {
    app->parse(own);
  } catch (const CLI::CallForHelp&) {
    // The help of kcx is no answer to a subcommand that there is not.
    if (const auto words = app->remaining(true); !words.empty() && chosen(*app).get_require_subcommand_min() > 0)
      return wrong(*app, "unknown option or word \"" + visible(words.front()) + '"');
    to.answer = app->help();
    return to;
  } catch (const CLI::CallForVersion& version) {
    to.answer = std::string{version.what()} + '\n';
    return to;
  } catch (const CLI::ParseError& refused) {
    auto words = app->remaining(true);
    if (words.empty())
      return wrong(*app, refused.what());
    const bool for_job = app->got_subcommand("submit") || app->got_subcommand("run");
    return wrong(*app, "unknown option or word \"" + visible(words.front()) + '"' +
                         (for_job ? "; the job's command stands after \"--\"" : ""));
  }
  if (dashes == arguments.end())
    return to;
  if (to.what == verb::artifacts) {
    to.artifacts.paths.insert(to.artifacts.paths.end(), dashes + 1, arguments.end());
    return to;
  }
  to.job.argv.assign(dashes + 1, arguments.end());
  if (to.what != verb::run && to.what != verb::submit)
    return wrong(*app, "only run and submit take a command after \"--\"");
  if (to.job.argv.empty())
    return wrong(*app, "the command after \"--\" is missing");
  return to;
}

std::vector<command_summary> command_summaries() {
  invocation unused;
  auto app = make_app(unused);
  std::vector<command_summary> all;
  summarize(*app, "", all);
  return all;
}

} // namespace kcx::cli
