r"""
Which words cannot be foreseen
==============================

A language of sentences "name verb number unit ." in which the verb follows from the name and the
unit from the verb; names and numbers are drawn at random. :class:`~likely.TokenTemperature` learns
a temperature for every token of a small model that is already trained: it is high where the next word
cannot be predicted.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import likely

torch.manual_seed(0)
names, verbs = ["Ada", "Emmy", "Kurt", "Alan"], ["walks", "weighs", "waits", "owes"]
numbers, units = [str(number) for number in range(1, 21)], ["km", "kg", "hours", "euros"]
words = [*names, *verbs, *numbers, *units, "."]


def sentences(n):
    kind, number = torch.randint(0, 4, (n,)), torch.randint(0, 20, (n,))
    tokens = [kind, 4 + kind, 8 + number, 28 + kind, torch.full((n,), 32)]
    return torch.stack(tokens, dim=1).flatten()


# %%
# The model: a recurrent network, trained by cross-entropy on few sentences, so that it memorises
# their numbers.

embed, mix, output = nn.Embedding(33, 32), nn.GRU(32, 64, batch_first=True), nn.Linear(64, 33)


def states_of(tokens):
    return mix(embed(tokens))[0]


text = sentences(200).reshape(20, 50)
weights = [*embed.parameters(), *mix.parameters(), *output.parameters()]
optimizer = torch.optim.Adam(weights, lr=0.01)
for _ in range(150):
    optimizer.zero_grad()
    logits = output(states_of(text))[:, :-1]
    nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
    optimizer.step()

# %%
# The temperatures, learned on sentences that the model has not seen, without changing the model.

fresh = sentences(800).reshape(80, 50)
head = likely.TokenTemperature(64, hidden=(32,), isolated=True)
optimizer = torch.optim.Adam(head.parameters(), lr=0.02)
with torch.no_grad():
    states, weight, bias = states_of(fresh), output.weight.clone(), output.bias.clone()
for _ in range(250):
    optimizer.zero_grad()
    head(states, weight, fresh, bias=bias).backward()
    optimizer.step()

# %%
# The last four of six sentences. The bar at a word is the temperature of its prediction; those of
# names and numbers are orange.

shown = sentences(6)
with torch.no_grad():
    heat = head.eval().temperature(states_of(shown[None]))[0, 9:-1].numpy()
fig, ax = plt.subplots(figsize=(7.6, 4.8), layout="constrained")
drawn = [token < 4 or 8 <= token < 28 for token in shown[10:].tolist()]
colours = ["C1" if each else "C0" for each in drawn]
ax.bar(range(20), heat - 1, bottom=1, width=0.85, color=colours)
ax.axhline(1, color="0.4", linewidth=1)
ax.set_xticks(range(20), [words[token] for token in shown[10:]], rotation=60)
ax.set_yscale("log")
ax.set_yticks([0.25, 0.5, 1, 2, 4, 8], ["¼", "½", "1", "2", "4", "8"])
ax.set_yticks([], minor=True)
ax.set(ylabel="temperature", title="Hot: what nothing foretells")
plt.show()
