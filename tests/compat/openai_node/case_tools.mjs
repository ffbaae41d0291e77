// Tools, streamed; the helper that runs them; an output as a schema of zod.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const { SERVER_URL, MODEL } = process.env;
const client = new OpenAI({ baseURL: `${SERVER_URL}/v1`, apiKey: "unused", maxRetries: 0 });
const messages = [{ role: "user", content: "What is the weather in Paris?" }];
const request = { model: MODEL, messages, temperature: 0, max_tokens: 100 };
const Weather = z.object({ city: z.enum(["Paris", "Rome"]), days: z.number().int().min(1).max(9) });
const tools = [zodFunction({ name: "get_weather", parameters: Weather })];
const forced = { ...request, tools, tool_choice: "required", parallel_tool_calls: false };

const stream = client.chat.completions.stream(forced);
const ids = [];
stream.on("chunk", (chunk) => ids.push(...(chunk.choices[0]?.delta.tool_calls ?? []).map((call) => call.id)));
const streamed = await stream.finalChatCompletion();
const [call] = streamed.choices[0].message.tool_calls;
assert.equal(streamed.choices[0].finish_reason, "tool_calls");
assert.equal(ids.filter(Boolean).length, 1);
assert.equal(call.function.name, "get_weather");
Weather.parse(JSON.parse(call.function.arguments));

const whole = await client.chat.completions.parse(forced);
assert.deepEqual(whole.choices[0].message.tool_calls[0].function.parsed_arguments, Weather.parse(JSON.parse(call.function.arguments)));

const answer = { role: "tool", tool_call_id: call.id, content: "Sunny." };
const turn = { ...request, tools, tool_choice: "none", messages: [...messages, streamed.choices[0].message, answer] };
assert.ok((await client.chat.completions.create(turn)).choices[0].message.content);

const parsed = await client.chat.completions.parse({ ...request, response_format: zodResponseFormat(Weather, "weather") });
Weather.parse(parsed.choices[0].message.parsed);
