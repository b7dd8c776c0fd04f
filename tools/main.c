/* The `tern` command: finds the subcommand, parses its options, runs it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "sampling.h"
#include "terminal.h"

const tn_command *const tn_commands[] = {
    &tn_command_run,      &tn_command_chat,       &tn_command_inspect,
    &tn_command_bench,    &tn_command_embed,      &tn_command_quantize,
    &tn_command_imatrix,  &tn_command_convert,    &tn_command_eval,
    &tn_command_tokenize, &tn_command_logits,     &tn_command_template,
    &tn_command_doctor,   &tn_command_completion, NULL,
};

static void print_help(void) {
    printf("tern %s: run language models on the CPU you have\n\nusage: tern COMMAND [options]\n\n",
           tern_version());
    for (const tn_command *const *c = tn_commands; *c; c++) printf("  %-10s %s\n", (*c)->name, (*c)->summary);
    fputs("\n  --help     this text; tern COMMAND --help for the options of a command\n"
          "  --version  print the version\n\n"
          "Text goes to standard output alone, everything else to standard error.\n"
          "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (143 by SIGTERM).\n",
          stdout);
}

/* A descriptor that the caller closed would be given to the next file opened, and text written into that. */
static void reserve_standard_descriptors(void) {
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
        /* Read-only behind standard output, so that a write fails and is noticed. */
        if (open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
    }
}

static int run_command(const tn_command *command, int n_args, char *const *args) {
    tn_options options;
    const int failed = tn_options_parse(command, n_args, args, &options);
    if (failed) return failed;
    if (options.help || options.help_sampling) {
        fputs(options.help ? command->help : tn_sampling_help, stdout);
        return TN_EXIT_DONE;
    }
    return command->run(&options);
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) return tn_cli_fail_usage(NULL, "missing command");
    const char *word = argv[1];
    const bool help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
    if (help || strcmp(word, "--version") == 0) {
        if (argc > 2) return tn_cli_fail_usage(NULL, "extra argument '%s'", argv[2]);
        if (help)
            print_help();
        else
            printf("tern %s\n", tern_version());
        return TN_EXIT_DONE;
    }
    for (const tn_command *const *c = tn_commands; *c; c++) {
        if (strcmp(word, (*c)->name) == 0) return run_command(*c, argc - 2, argv + 2);
    }
    return tn_cli_fail_usage(NULL, "%s: unknown %s", word, word[0] == '-' ? "option" : "command");
}

int main(int argc, char **argv) {
    reserve_standard_descriptors();
    tn_cli_install_signals();
    tn_stdout_start();
    int exit_code = dispatch(argc, argv);
    const int failed = tn_flush_stdout();
    if (failed && exit_code == TN_EXIT_DONE) exit_code = tn_cli_fail_write("standard output", failed);
    return exit_code == TN_EXIT_INTERRUPTED ? tn_cli_interrupted_code() : exit_code;
}
