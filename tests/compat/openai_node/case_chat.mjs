// Chat, whole and streamed with usage; log-probabilities; models.
import assert from "node:assert/strict";
import OpenAI from "openai";

const { SERVER_URL, MODEL } = process.env;
const client = new OpenAI({ baseURL: `${SERVER_URL}/v1`, apiKey: "unused", maxRetries: 0 });
const messages = [{ role: "user", content: "What is the capital of France?" }];
const request = { model: MODEL, messages, temperature: 0, max_tokens: 30 };

const whole = await client.chat.completions.create(request);
assert.match(whole.choices[0].message.content, /Paris/);
assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);

const chunks = [];
const options = { stream: true, stream_options: { include_usage: true } };
for await (const chunk of await client.chat.completions.create({ ...request, ...options })) chunks.push(chunk);
const streamed = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
assert.equal(streamed, whole.choices[0].message.content);
assert.deepEqual(chunks.at(-1).choices, []);
assert.equal(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);
assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);

const helper = client.chat.completions.stream(request);
assert.equal(await helper.finalContent(), whole.choices[0].message.content);

const { choices } = await client.chat.completions.create({ ...request, max_tokens: 5, logprobs: true, top_logprobs: 2 });
const entries = choices[0].logprobs.content;
assert.equal(Buffer.from(entries.flatMap((entry) => entry.bytes)).toString(), choices[0].message.content);
assert.ok(entries.every((entry) => entry.top_logprobs[0].token === entry.token && entry.logprob <= 0));

for await (const model of client.models.list()) assert.equal(model.id, MODEL);
