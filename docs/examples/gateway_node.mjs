// OpenAI's Node client through `agentlearn serve`: npm install openai; node gateway_node.mjs
import OpenAI from "openai";

const gateway = process.env.GATEWAY ?? "http://127.0.0.1:8400/v1";
const client = new OpenAI({ baseURL: gateway, apiKey: process.env.OPENAI_API_KEY ?? "none" });

const { data, response } = await client.chat.completions
  .create({ model: process.env.MODEL ?? "gpt-5-mini", messages: [{ role: "user", content: "What is 6 * 7?" }] })
  .withResponse();
console.log(data.choices[0].message.content, response.headers.get("x-agentlearn-library"));

// What a person says about it, now or later.
await fetch(`${gateway}/feedback`, {
  method: "POST",
  body: JSON.stringify({ inference_id: response.headers.get("x-agentlearn-rollout"), metric_name: "reward", value: true }),
});
