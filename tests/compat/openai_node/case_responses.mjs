// The responses API: text, the events of a stream, a schema, function tools.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const { SERVER_URL, MODEL } = process.env;
const client = new OpenAI({ baseURL: `${SERVER_URL}/v1`, apiKey: "unused", maxRetries: 0 });
const request = { model: MODEL, input: "What is the capital of France?", temperature: 0, max_output_tokens: 60 };
const Weather = z.object({ city: z.enum(["Paris", "Rome"]), days: z.number().int().min(1).max(9) });

const whole = await client.responses.create(request);
assert.match(whole.output_text, /Paris/);
assert.equal(whole.usage.total_tokens, whole.usage.input_tokens + whole.usage.output_tokens);

const stream = client.responses.stream(request);
let text = "";
for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
const final = await stream.finalResponse();
assert.equal(text, whole.output_text);
assert.equal(final.output_text, whole.output_text);
assert.equal(final.usage.output_tokens, whole.usage.output_tokens);

const parsed = await client.responses.parse({ ...request, text: { format: zodTextFormat(Weather, "weather") } });
Weather.parse(parsed.output_parsed);

const tool = { type: "function", name: "get_weather", parameters: z.toJSONSchema(Weather), strict: true };
const calling = client.responses.stream({ ...request, tools: [tool], tool_choice: "required", parallel_tool_calls: false });
const call = (await calling.finalResponse()).output.find((item) => item.type === "function_call");
assert.equal(call.name, "get_weather");
Weather.parse(JSON.parse(call.arguments));

await assert.rejects(client.responses.create({ ...request, temperature: -1 }), OpenAI.BadRequestError);
