"""Makes tests/golden/minilm.f32 with PyTorch and transformers, which the test itself does not need.

    python tests/golden/make_minilm.py FOLDER

FOLDER holds the checkpoint (tools/fetch-model all-minilm-l6-v2). For each line of minilm.txt the vector that the model's card
describes: BertModel in float32, the mean over the tokens, length 1."""

import pathlib
import sys

import numpy as np
import torch
import transformers

GOLDEN = pathlib.Path(__file__).resolve().parent


def vectors(folder, lines):
    tokenizer = transformers.BertTokenizer(vocab=str(folder / "vocab.txt"), do_lower_case=True)
    model = transformers.BertModel.from_pretrained(folder).eval()
    rows = []
    with torch.no_grad():
        for line in lines:
            hidden = model(**tokenizer(line, return_tensors="pt")).last_hidden_state[0]
            rows.append(torch.nn.functional.normalize(hidden.mean(dim=0), dim=0).numpy())
    return np.array(rows, "<f4")


if __name__ == "__main__":
    found = vectors(pathlib.Path(sys.argv[1]), (GOLDEN / "minilm.txt").read_text().splitlines())
    found.tofile(GOLDEN / "minilm.f32")
    print(found.shape, "closest pair", np.sort((found @ found.T)[~np.eye(len(found), dtype=bool)])[-1])
