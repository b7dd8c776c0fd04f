/* README.md's front matter, the YAML between two lines of "---": licence, tags, languages, and what the model was made of.
 * None of it is needed to run the model, so front matter that is no YAML is told and left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../formats/yaml_doc.h"
#include "../base/fmap.h"
#include "convert_impl.h"
#include "model_name.h"

enum { MAX_FRONT_MATTER = 1 << 18, MAX_ITEMS = 1024 };

typedef struct card {
    tn_converter *c;
    yaml_document_t doc;
    const yaml_node_t *root;
} card;

/* NULL for what is no text: a list, nothing, null. */
static const char *scalar(const yaml_node_t *node) {
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"}; /* YAML 1.2.2, 10.3.2 */
    if (!node || node->type != YAML_SCALAR_NODE) return NULL;
    const char *text = (const char *)node->data.scalar.value;
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return *text ? text : NULL;
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
        if (!strcmp(text, nulls[i])) return NULL;
    return text;
}

static yaml_node_t *field(card *k, const char *name) {
    const yaml_node_t *map = k->root;
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const char *key = scalar(yaml_document_get_node(&k->doc, p->key));
        if (key && !strcmp(key, name)) return yaml_document_get_node(&k->doc, p->value);
    }
    return NULL;
}

/* The texts of a field: one, or the items of a list. */
static size_t texts(card *k, const char *name, const char **out, size_t n) {
    const yaml_node_t *node = field(k, name);
    const char *one = scalar(node);
    if (one && n < MAX_ITEMS) out[n++] = one;
    if (!node || node->type != YAML_SEQUENCE_NODE) return n;
    for (yaml_node_item_t *i = node->data.sequence.items.start;
         i < node->data.sequence.items.top && n < MAX_ITEMS; i++)
        if ((one = scalar(yaml_document_get_node(&k->doc, *i)))) out[n++] = one;
    return n;
}

static void set_text(const tn_converter *c, const char *key, const char *text) {
    if (text && *text) tn_gguf_set_text(c->writer, key, text, strlen(text));
}

static void write_texts(const card *k, const char *key, const char **items, size_t n) {
    tn_str list[MAX_ITEMS];
    for (size_t i = 0; i < n; i++) list[i] = (tn_str){items[i], strlen(items[i])};
    if (n) tn_gguf_set_texts(k->c->writer, key, list, n);
}

static void write_licence(card *k, const char **items) {
    char all[512] = "";
    const size_t n = texts(k, "license", items, 0);
    for (size_t i = 0, at = 0; i < n && at < sizeof all; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? "," : "", items[i]);
    set_text(k->c, "general.license", all);
    set_text(k->c, "general.license.name", scalar(field(k, "license_name")));
    set_text(k->c, "general.license.link", scalar(field(k, "license_link")));
}

/* A link, or ORGANIZATION/NAME on Hugging Face. */
static void write_origin(const card *k, const char *what, size_t i, const char *id) {
    static const char site[] = "https://huggingface.co/";
    const bool link = !strncmp(id, "http://", 7) || !strncmp(id, "https://", 8) || !strncmp(id, "ssh://", 6);
    const char *name = !strncmp(id, site, strlen(site)) ? id + strlen(site) : id;
    tn_model_name parts;
    char key[64], url[512];
    memset(&parts, 0, sizeof parts);
    const char *slash = strchr(name, '/');
    if (!link || (name != id && slash && !strchr(slash + 1, '/')))
        tn_model_name_read(name, k->c->n_params, &parts);
    const char *const fields[][2] = {
        {"name", parts.title}, {"organization", parts.organization}, {"version", parts.version}};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
        snprintf(key, sizeof key, "general.%s.%zu.%s", what, i, fields[f][0]);
        set_text(k->c, key, fields[f][1]);
    }
    snprintf(key, sizeof key, "general.%s.%zu.repo_url", what, i);
    snprintf(url, sizeof url, "%s%s", link ? "" : site, id);
    if (link || (slash && !strchr(id, ' '))) set_text(k->c, key, url);
}

static void write_origins(card *k, const char *what, const char *const *names, const char **items) {
    char key[64];
    size_t n = 0;
    for (; *names && !n; names++) n = texts(k, *names, items, 0);
    snprintf(key, sizeof key, "general.%s.count", what);
    if (n) tn_gguf_set_u32(k->c->writer, key, (uint32_t)n);
    for (size_t i = 0; i < n; i++) write_origin(k, what, i, items[i]);
}

static void write_card(card *k) {
    static const char *const bases[] = {"base_model", "base_models", "base_model_sources", NULL};
    static const char *const sets[] = {"datasets", "dataset", "dataset_sources", NULL};
    const char *items[MAX_ITEMS];
    size_t n = texts(k, "tags", items, 0);
    write_texts(k, "general.tags", items, texts(k, "pipeline_tag", items, n));
    n = texts(k, "languages", items, 0);
    write_texts(k, "general.languages", items, texts(k, "language", items, n));
    write_licence(k, items);
    const char *author = scalar(field(k, "model_creator"));
    set_text(k->c, "general.author", author ? author : scalar(field(k, "author")));
    write_origins(k, "base_model", bases, items);
    write_origins(k, "dataset", sets, items);
}

/* The lines between the first and the next that are "---". */
static const char *front_matter(const tn_fmap *map, size_t *n) {
    const char *text = (const char *)map->data;
    if (map->size < 8 || (memcmp(text, "---\n", 4) != 0 && memcmp(text, "---\r\n", 5) != 0)) return NULL;
    text = (const char *)memchr(text, '\n', 5) + 1;
    const char *end = memmem(text - 1, (size_t)((const char *)map->data + map->size - text + 1), "\n---", 4);
    *n = end && end >= text ? (size_t)(end + 1 - text) : 0;
    return *n && *n <= MAX_FRONT_MATTER ? text : NULL;
}

static tn_status parse(tn_converter *c, const char *text, size_t n) {
    card k = {.c = c};
    tn_yaml_problem problem;
    const bool read = tn_yaml_load(text, n, &k.doc, &problem);
    if (!read && !problem.text) return tn_convert_no_memory(c);
    k.root = read ? yaml_document_get_root_node(&k.doc) : NULL;
    if (k.root && k.root->type == YAML_MAPPING_NODE)
        write_card(&k);
    else if (c->options->warn)
        c->options->warn(c->options->user,
                         "the front matter of README.md cannot be read: no licence, no tags");
    if (read) yaml_document_delete(&k.doc);
    return TN_OK;
}

tn_status tn_convert_write_card(tn_converter *c) {
    tn_fmap map;
    size_t n;
    const char *path = tn_convert_path(c, "README.md");
    if (!path) return tn_convert_no_memory(c);
    bool exists;
    tn_status s = tn_fmap_exists(path, &exists, c->err);
    if (s || !exists || (s = tn_fmap_open(&map, path, c->err))) return s;
    const char *text = front_matter(&map, &n);
    if (text) s = parse(c, text, n);
    tn_fmap_close(&map);
    return s;
}
