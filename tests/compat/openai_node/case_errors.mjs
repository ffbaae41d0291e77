// What is wrong is an exception of the client's own, with the field's name.
import assert from "node:assert/strict";
import OpenAI from "openai";

const { SERVER_URL, MODEL } = process.env;
const client = new OpenAI({ baseURL: `${SERVER_URL}/v1`, apiKey: "unused", maxRetries: 0 });
const messages = [{ role: "user", content: "Hello" }];

const refused = async (body) => {
  const outcome = await client.chat.completions.create({ model: MODEL, messages, ...body }).catch((error) => error);
  assert.ok(outcome instanceof OpenAI.APIError, JSON.stringify(outcome));
  assert.ok(outcome.requestID);
  return outcome;
};

const unknown = await refused({ model: "other" });
assert.ok(unknown instanceof OpenAI.NotFoundError);
assert.equal(unknown.code, "model_not_found");
const negative = await refused({ temperature: -1 });
assert.ok(negative instanceof OpenAI.BadRequestError);
assert.equal(negative.param, "temperature");
assert.equal(negative.type, "invalid_request_error");
const long = await refused({ messages: [{ role: "user", content: "word ".repeat(9000) }], stream: true });
assert.equal(long.code, "context_length_exceeded");
