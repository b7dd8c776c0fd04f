/* The command line: words of a call, one a line, the command first; then the file of settings that it names by --profile. Nothing is
 * run. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "tools/bench.h"
#include "tools/cli.h"
#include "tools/ids.h"
#include "tools/profile.h"

static const char words[] =
    "`run\n`chat\n`bench\n`quantize\n`eval\n`logits\n`perplexity\n`-m\n`-p\n`-n\n`-c\n`-t\n`-b\n`-s\n"
    "`--temp\n`--temp=`--top-k\n`--top-p\n`--min-p\n`--kv\n`q8_0\n`--ids\n`1 2 3\n`--bias\n`1=-inf\n"
    "`--split-size\n`2G\n`--depth\n`--profile\n`--full\n`drop\n`--stop\n`--\n`--help\n`4294967295\n`-1\n"
    "`1e400\n`0,1,2\n`default:\n`  temp: 0.5\n`  stop: [a, b]\n`careful:\n`  pin: true\n`  top-k: 40\n"
    "`  kv: f16\n`&a `*a`{`[";

enum { MAX_WORDS = 64 };

static int split(char *text, char *out[MAX_WORDS]) {
    int n = 0;
    for (char *at = text; *at && n < MAX_WORDS;) {
        out[n++] = at;
        at += strcspn(at, "\n");
        if (*at) *at++ = '\0';
    }
    return n;
}

/* What the commands read further of their options before they open a file. */
static void parse(const tn_command *command, int n, char *const *args, fuzz_said *said) {
    tn_options options;
    tn_profile *profile = NULL;
    tn_ids ids = {0};
    tn_bench_grid grid;
    int code = tn_options_parse(command, n, args, &options);
    const bool more = code == TN_EXIT_DONE && !options.help && !options.help_sampling;
    if (more && command->accepted & TN_ACCEPT(PROFILE)) code = tn_profile_apply(&options, &profile);
    if (!code && more && options.ids) code = tn_ids_parse(&options, &ids);
    if (!code && more && command == &tn_command_bench) code = tn_bench_grid_parse(&options, &grid);
    fuzz_heard(said, code);
    free(ids.ids);
    tn_profile_free(profile);
}

static void run(const uint8_t *data, size_t n) {
    fuzz_bytes parts[FUZZ_MAX_PARTS];
    const size_t n_parts = fuzz_split(data, n, parts);
    char *args[MAX_WORDS];
    const int n_args = split(fuzz_text(parts[0]), args);
    mkdir(fuzz_path("tern"), 0700);
    fuzz_write("tern/config.yaml", n_parts > 1 ? parts[1] : (fuzz_bytes){0}, 0);
    setenv("XDG_CONFIG_HOME", fuzz_path("."), 1);
    for (const tn_command *const *c = tn_commands; n_args && *c; c++) {
        if (strcmp((*c)->name, args[0]) != 0) continue;
        fuzz_said said;
        fuzz_listen(&said);
        parse(*c, n_args - 1, args + 1, &said);
    }
}

const fuzz_target fuzz_cli = {"cli", run, NULL, words, 16384};
