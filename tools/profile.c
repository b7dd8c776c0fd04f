#include "profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yaml.h>

#include "cli.h"
#include "sampling.h"

/* Fields of a profile: how tokens are drawn, and what the machine is used for; not what a run is about. */
static const tn_option_set fields =
    ((TN_SAMPLING_OPTIONS) & ~(TN_ACCEPT(PROFILE) | TN_ACCEPT(HELP_SAMPLING))) | TN_ACCEPT(CTX) |
    TN_ACCEPT(THREADS) | TN_ACCEPT(BATCH) | TN_ACCEPT(KV) | TN_ACCEPT(PIN) | TN_ACCEPT(PREDICT) |
    TN_ACCEPT(STOP) | TN_ACCEPT(IGNORE_EOS);

struct tn_profile {
    yaml_document_t doc;
    char path[4096];
    tn_options *options;
    tn_option_set given; /* on the command line */
};

static int bad(const tn_profile *p, const yaml_node_t *node, const char *why, const char *what) {
    return tn_cli_fail("bad settings: %s:%zu:%zu: %s%s%.100s%s", p->path, node->start_mark.line + 1,
                       node->start_mark.column + 1, why, what ? " '" : "", what ? what : "", what ? "'" : "");
}

static yaml_node_t *node_at(tn_profile *p, int index) {
    return yaml_document_get_node(&p->doc, index);
}

static const char *scalar(const yaml_node_t *node) {
    return node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

/* ---- Values -------------------------------------------------------------------------------------------------------- */

/* A field of a profile that is not the chosen one is checked the same way, into options that nobody reads. */
static int set_value(tn_profile *p, tn_options *options, tn_option_id id, const char *name,
                     const yaml_node_t *node) {
    char word[4300];
    const char *value = scalar(node);
    if (!value) return bad(p, node, "expected one value for", name);
    snprintf(word, sizeof word, "%s:%zu:%zu: %s", p->path, node->start_mark.line + 1,
             node->start_mark.column + 1, name);
    if (tn_option_values_of(id) != TN_VALUES_NONE) return tn_option_set_value(options, id, word, value);
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return bad(p, node, "expected true or false, found", value);
    return value[0] == 't' ? tn_option_set_value(options, id, word, NULL) : TN_EXIT_DONE;
}

static int set_field(tn_profile *p, tn_options *options, const yaml_node_t *key, yaml_node_t *value) {
    const char *name = scalar(key);
    const tn_option_id id = name ? tn_option_named(name) : TN_OPTION_COUNT;
    if (id == TN_OPTION_COUNT || !(fields & TN_OPTION_BIT(id)))
        return bad(p, key, "unknown field", name ? name : "");
    tn_options unread = {.command = options->command};
    if (p->given & TN_OPTION_BIT(id)) options = &unread;
    if (value->type != YAML_SEQUENCE_NODE || tn_option_values_of(id) != TN_VALUES_LIST)
        return set_value(p, options, id, name, value);
    int failed = TN_EXIT_DONE;
    for (yaml_node_item_t *i = value->data.sequence.items.start;
         i < value->data.sequence.items.top && !failed; i++)
        failed = set_value(p, options, id, name, node_at(p, *i));
    return failed;
}

static bool is_twice(tn_profile *p, const yaml_node_t *map, const yaml_node_pair_t *pair) {
    const char *name = scalar(node_at(p, pair->key)), *other;
    for (yaml_node_pair_t *i = map->data.mapping.pairs.start; i < pair; i++)
        if ((other = scalar(node_at(p, i->key))) && name && strcmp(name, other) == 0) return true;
    return false;
}

static int read_profile(tn_profile *p, tn_options *options, const yaml_node_t *map) {
    if (map->type != YAML_MAPPING_NODE) return bad(p, map, "expected fields and their values", NULL);
    for (yaml_node_pair_t *i = map->data.mapping.pairs.start; i < map->data.mapping.pairs.top; i++) {
        const yaml_node_t *key = node_at(p, i->key);
        if (is_twice(p, map, i)) return bad(p, key, "given twice:", scalar(key));
        const int failed = set_field(p, options, key, node_at(p, i->value));
        if (failed) return failed;
    }
    return TN_EXIT_DONE;
}

static int read_profiles(tn_profile *p, const yaml_node_t *map) {
    const char *wanted = p->options->profile ? p->options->profile : "default";
    const yaml_node_t empty = {.type = YAML_MAPPING_NODE}; /* of an empty file */
    bool found = false;
    if (!map) map = &empty;
    if (map->type != YAML_MAPPING_NODE)
        return bad(p, map, "expected names of profiles, each with its fields", NULL);
    for (yaml_node_pair_t *i = map->data.mapping.pairs.start; i < map->data.mapping.pairs.top; i++) {
        const yaml_node_t *key = node_at(p, i->key);
        const char *name = scalar(key);
        if (!name) return bad(p, key, "expected the name of a profile", NULL);
        if (is_twice(p, map, i)) return bad(p, key, "given twice:", name);
        const bool chosen = strcmp(name, wanted) == 0;
        tn_options unread = {.command = p->options->command};
        const int failed = read_profile(p, chosen ? p->options : &unread, node_at(p, i->value));
        if (failed) return failed;
        found = found || chosen;
    }
    if (found || !p->options->profile) return TN_EXIT_DONE;
    return tn_cli_fail("no such profile: %s: '%s' is not there", p->path, wanted);
}

/* ---- The file -------------------------------------------------------------------------------------------------------- */

static bool find_path(tn_profile *p) {
    return tn_cli_user_path("XDG_CONFIG_HOME", "/.config", "/tern/config.yaml", p->path, sizeof p->path) > 0;
}

static int parse(tn_profile *p, const tn_text *text) {
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return tn_cli_fail("cannot read: %s: out of memory", p->path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)(text->bytes ? text->bytes : ""), text->n);
    int exit_code = TN_EXIT_DONE;
    if (!yaml_parser_load(&parser, &p->doc)) {
        memset(&p->doc, 0, sizeof p->doc);
        exit_code =
            tn_cli_fail("bad settings: %s:%zu:%zu: %s", p->path, parser.problem_mark.line + 1,
                        parser.problem_mark.column + 1, parser.problem ? parser.problem : "cannot be read");
    }
    yaml_parser_delete(&parser);
    return exit_code;
}

/* One that is there and cannot be read is an error: else it would be passed over in silence. */
static bool is_absent(const char *path) {
    return access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES);
}

int tn_profile_apply(tn_options *options, tn_profile **kept) {
    tn_profile *p = *kept = calloc(1, sizeof *p);
    if (!p) return tn_cli_fail("cannot read: settings: out of memory");
    p->options = options;
    p->given = options->given;
    const tn_option_set constraints = TN_ACCEPT(GRAMMAR) | TN_ACCEPT(JSON_SCHEMA);
    if (p->given & constraints) p->given |= constraints; /* one is instead of the other */
    if (!find_path(p)) return options->profile ? tn_cli_fail("cannot read: settings: no home") : TN_EXIT_DONE;
    if (!options->profile && is_absent(p->path)) return TN_EXIT_DONE;
    tn_text text;
    int exit_code = tn_cli_read(p->path, &text);
    if (!exit_code) exit_code = parse(p, &text);
    free(text.bytes);
    if (!exit_code) exit_code = read_profiles(p, yaml_document_get_root_node(&p->doc));
    return exit_code;
}

void tn_profile_free(tn_profile *kept) {
    if (!kept) return;
    yaml_document_delete(&kept->doc);
    free(kept);
}
